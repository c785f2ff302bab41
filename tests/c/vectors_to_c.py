#!/usr/bin/env python3
"""Makes the C tables of test_vectors.c from tests/vectors/manifest.json.

    vectors_to_c.py MANIFEST OUTPUT

C has no JSON: this turns what the manifest expects into initializers of HurrayDescriptorFields and
of the rows that test_vectors.c declares. A layout is added by a line in LAYOUTS, with the function that
writes its fields.
"""

import json
import pathlib
import sys


def strided(layout):
    return f".strides = {array('int64_t', layout['strides'])}"


# Layouts the library reads: tag, and how their fields are written.
LAYOUTS = {
    "row_major": (0x01, lambda layout: ""),
    "col_major": (0x02, lambda layout: ""),
    "strided": (0x03, strided),
}
# Those it does not read yet: what is wrong in their fields cannot be expected to be found.
LATER_LAYOUTS = {0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x40}

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
        f".buffers = (const HurrayBufferHandle[]){{{buffers}}}",
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
    directory = pathlib.Path(manifest_path).parent
    valid, invalid, addressing = [], [], []

    ranks = {}
    for vector in manifest["valid"]:
        descriptor = vector["descriptor"]
        if descriptor["layout"]["name"] in LAYOUTS:
            ranks[vector["file"]] = len(descriptor["shape"])
            valid.append(f'{{"{vector["file"]}",\n     {descriptor_fields(descriptor)}}}')

    for vector in manifest["invalid"]:
        data = (directory / vector["file"]).read_bytes()
        if len(data) > 15 and data[15] in LATER_LAYOUTS:
            continue
        code = CODES.get(vector["because"], "0")
        invalid.append(f'{{"{vector["file"]}", {json.dumps(vector["because"])}, {code}}}')

    for vector in manifest["addressing"]:
        if vector["descriptor"] not in ranks:
            continue
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
