#!/usr/bin/env python3
"""Makes the C tables of test_vectors.c from tests/vectors/manifest.json.

    vectors_to_c.py MANIFEST OUTPUT

C has no JSON: this turns what the manifest expects into initializers of HurrayDescriptorFields and
of the rows that test_vectors.c declares. A layout is a line in LAYOUTS, with the function that writes its
fields.
"""

import json
import pathlib
import sys


def strided(layout):
    return f".strides = {array('int64_t', layout['strides'])}"


# Tags that a level of a tiled layout may name.
ORDERS = {"row_major": 1, "col_major": 2, "strided": 3, "tiled": 4}


def tiled(layout):
    levels = []
    while layout is not None:
        fields = {
            "tile_shape": array("uint64_t", layout["tile_shape"]),
            "outer_layout": ORDERS[layout["outer"]],
            "inner_layout": ORDERS[layout["inner"]],
            "outer_strides": array("int64_t", layout.get("outer_strides")),
            "inner_strides": array("int64_t", layout.get("inner_strides")),
        }
        levels.append(f"{{{', '.join(f'.{key} = {value}' for key, value in fields.items())}}}")
        layout = layout.get("inner_tiled")
    rows = ", ".join(levels)
    return f".tiled = {{{len(levels)}, (const HurrayTileLevel[]){{{rows}}}}}"


def morton(layout):
    return f".morton_bits = {array('uint32_t', layout['bits'])}"


def hilbert(layout):
    return f".hilbert = {{{layout['order']}, {layout['rank']}}}"


def sparse(layout):
    order = array("uint32_t", layout.get("mode_order"))
    is_sorted = layout.get("is_sorted", 0)
    return f".sparse = {{{number(layout['nnz'], 'uint64_t')}, {is_sorted}, {order}}}"


def paged(layout):
    keys = ["page_size", "num_pages", "paged_axis", "num_seqs", "kv_role", "layer_index"]
    fields = ", ".join(f"{layout[key]}u" for key in [*keys, "index_type"])
    return f".paged = {{{fields}}}"


def composite(layout):
    return f".composite = {{{layout['rule']}, {layout['combine']}, {layout['members']}}}"


# Every layout: its tag, and how its fields are written.
LAYOUTS = {
    "row_major": (0x01, lambda layout: ""),
    "col_major": (0x02, lambda layout: ""),
    "strided": (0x03, strided),
    "tiled": (0x04, tiled),
    "morton": (0x05, morton),
    "coo": (0x06, sparse),
    "csr": (0x07, sparse),
    "csc": (0x08, sparse),
    "csf": (0x09, sparse),
    "block_paged": (0x0A, paged),
    "composite": (0x0B, composite),
    "hilbert": (0x40, hilbert),
}

SCHEMES = {"per_tensor": 1, "per_channel": 2, "per_block": 3, "nf4": 4, "mxfp": 5}
SCALE_TYPES = {"float16": 0x01, "bfloat16": 0x02, "float32": 0x03}
ROLES = {"correction": 0, "base": 1}

# Which fields of the statistics each bit of computed_mask claims.
CLAIMS = [
    ["nnz"],
    ["sparsity_ratio"],
    ["value_min", "value_max", "value_abs_max"],
    ["value_mean", "value_stddev"],
    ["nm_n", "nm_m"],
    ["has_nan", "has_inf"],
]

# Faults whose status programs may rely on (spec 7.2), by how the manifest calls them.
CODES = {
    "magic": "HURRAY_ERR_INVALID_MAGIC",
    "major version": "HURRAY_ERR_VERSION_MISMATCH",
    "scheme version": "HURRAY_ERR_VERSION_MISMATCH",
    "type tag invalid": "HURRAY_ERR_INVALID_TYPE",
    "type tag unassigned": "HURRAY_ERR_INVALID_TYPE",
    "device tag": "HURRAY_ERR_INVALID_TYPE",
    "memory class": "HURRAY_ERR_INVALID_TYPE",
    "device and memory class": "HURRAY_ERR_INVALID_TYPE",
    "sync mode": "HURRAY_ERR_INVALID_SYNC_MODE",
    "cpu buffer must be producer_synced": "HURRAY_ERR_INVALID_SYNC_MODE",
}


def number(value, c_type):
    if c_type in ("double", "float"):
        return float(value).hex() + ("f" if c_type == "float" else "")
    if c_type == "int64_t":
        # The magnitude of the least i64 is no literal.
        return "INT64_MIN" if value == -(2**63) else f"INT64_C({value})"
    return f"UINT64_C({value})" if c_type == "uint64_t" else str(value)


def array(c_type, values):
    """A compound literal; NULL when there is nothing in it."""
    if not values:
        return "NULL"
    return f"(const {c_type}[]){{{', '.join(number(value, c_type) for value in values)}}}"


def struct(name, fields):
    return f"&(const {name}){{{', '.join(f'.{key} = {value}' for key, value in fields.items())}}}"


def quantization(scheme):
    fields = {"scheme": SCHEMES[scheme["scheme"]]}
    if "scale" in scheme:
        fields["scale"] = number(scheme["scale"], "float")
        fields["zero_point"] = scheme["zero_point"]
    for key in ("axis", "block_size", "scale_buffer"):
        if key in scheme:
            fields[key] = scheme[key]
    if scheme["scheme"] in ("per_channel", "per_block"):
        fields["scale_type"] = SCALE_TYPES[scheme.get("scale_type", "float32")]
        index = scheme["zero_point_buffer"]
        fields["zero_point_buffer"] = "HURRAY_NO_BUFFER" if index is None else index
    return struct("HurrayQuantization", fields)


def statistics(values):
    mask = sum(1 << bit for bit, claims in enumerate(CLAIMS) if claims[0] in values)
    fields = {"computed_mask": mask}
    for key, value in values.items():
        kind = "uint64_t" if key == "nnz" else "double"
        fields[key] = value if key.startswith(("nm_", "has_")) else number(value, kind)
    return struct("HurrayStatistics", fields)


def handle(buffer):
    return (
        f"{{{number(buffer['byte_size'], 'uint64_t')}, {buffer['alignment']}, "
        f"{buffer['device']}, {buffer['sync']}, {buffer['class']}}}"
    )


def descriptor_fields(descriptor):
    tag, write_fields = LAYOUTS[descriptor["layout"]["name"]]
    buffers = ", ".join(handle(buffer) for buffer in descriptor["buffers"])
    fields = [
        f".type_tag = {descriptor['type_tag']}",
        f".rank = {len(descriptor['shape'])}",
        f".shape = {array('uint64_t', descriptor['shape'])}",
        f".byte_offset = {number(descriptor['byte_offset'], 'uint64_t')}",
        f".layout = {{.tag = {tag}, {write_fields(descriptor['layout'])}}}",
        f".buffer_count = {len(descriptor['buffers'])}",
        f".buffers = {f'(const HurrayBufferHandle[]){{{buffers}}}' if buffers else 'NULL'}",
    ]
    if "quantization" in descriptor:
        fields.append(f".quantization = {quantization(descriptor['quantization'])}")
    if "shard" in descriptor:
        shard = {key: array("uint64_t", value) for key, value in descriptor["shard"].items()}
        fields.append(f".shard = {struct('HurrayShard', shard)}")
    if "statistics" in descriptor:
        fields.append(f".statistics = {statistics(descriptor['statistics'])}")
    if "extension_type" in descriptor:
        extension = struct("HurrayExtensionType", descriptor["extension_type"])
        fields.append(f".extension_type = {extension}")
    if "member_role" in descriptor:
        role = struct("HurrayCompositeMember", {"role": ROLES[descriptor["member_role"]]})
        fields.append(f".member = {role}")
    return "{" + ",\n      ".join(fields) + "}"


def table(kind, name, rows):
    body = ",\n    ".join(rows)
    return f"static const {kind} {name}[] = {{\n    {body},\n}};\n"


def main(manifest_path, output_path):
    manifest = json.loads(pathlib.Path(manifest_path).read_text(encoding="utf-8"))
    valid, invalid, addressing = [], [], []

    ranks = {}
    for vector in manifest["valid"]:
        descriptor = vector["descriptor"]
        ranks[vector["file"]] = len(descriptor["shape"])
        valid.append(f'{{"{vector["file"]}",\n     {descriptor_fields(descriptor)}}}')

    for vector in manifest["invalid"]:
        code = CODES.get(vector["because"], "0")
        invalid.append(f'{{"{vector["file"]}", {json.dumps(vector["because"])}, {code}}}')

    for vector in manifest["addressing"]:
        index = [extent for row in vector["offsets"] for extent in row[0]]
        offsets = [row[1] for row in vector["offsets"]]
        addressing.append(
            f'{{"{vector["descriptor"]}", {ranks[vector["descriptor"]]}, {len(offsets)},\n'
            f"     {array('uint64_t', index)},\n     {array('int64_t', offsets)}}}"
        )

    text = "/* Made by vectors_to_c.py from tests/vectors/manifest.json. */\n\n" + "\n".join(
        [
            table("ValidVector", "valid_vectors", valid),
            table("InvalidVector", "invalid_vectors", invalid),
            table("AddressingVector", "addressing_vectors", addressing),
        ]
    )
    pathlib.Path(output_path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
