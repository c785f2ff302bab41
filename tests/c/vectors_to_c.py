#!/usr/bin/env python3
"""Makes the C tables of test_vectors.c and of streams.h from tests/vectors/manifest.json.

    vectors_to_c.py MANIFEST VECTORS_OUTPUT STREAMS_OUTPUT

C has no JSON: this turns what the manifest expects into initializers of HurrayDescriptorFields and
of the rows that test_vectors.c and streams.h declare. A layout is a line in LAYOUTS, with the
function that writes its fields.
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

# What the message of a refusal has to name: the field, or the part of the descriptor. Each reason of the
# manifest stands in one line; those few vectors whose reason leaves it open which field it is come below.
NAMES = {
    "magic": ["magic"],
    "version_major": ["major version"],
    "scheme_version": ["scheme version"],
    "descriptor: ": ["shorter than 10 bytes"],
    "descriptor_length": [
        "descriptor_length",
        "descriptor_length disagrees with its parts",
        "truncated",
        "truncated at byte 45",
        "truncated at byte 65",
    ],
    "flags 0x": ["reserved flags"],
    "type tag 0x": ["type tag invalid", "type tag unassigned"],
    "rank": ["rank", "rank 2", "rank 3", "rank 3 or more", "scalar layout"],
    "extents": ["element count overflows"],
    "byte_offset": [
        "byte_offset past buffer 0",
        "byte_offset of a sparse or paged tensor",
        "reaches before buffer 0",
    ],
    "layout tag 0x": ["layout tag invalid", "layout tag unassigned"],
    "buffer count": [
        "buffer count 2, needs 3",
        "buffer count 4, needs 3",
        "buffer count 2, needs 1",
        "empty buffer table",
    ],
    "buffer 0 (data) holds": ["reaches past buffer 0"],
    "(page_pool) holds": ["pool too small"],
    "(seq_ptr) holds": ["seq_ptr too small"],
    "(indices) holds": ["indices too small"],
    "_ptr) holds": ["pointers too small"],
    "alignment": ["alignment power of two", "alignment below 64"],
    "device tag 0x": ["device tag"],
    "memory class": ["memory class", "device and memory class", "colocation"],
    "sync mode": ["sync mode", "cpu buffer must be producer_synced"],
    "buffer 0: reserved byte": ["handle reserved"],
    "tile_shape": [
        "tile extent 0",
        "reach overflows",
        "inner tile does not divide the outer tile",
    ],
    "outer_layout": ["outer_layout"],
    "inner_layout": ["inner_layout", "tiled nesting too deep"],
    "morton_bits": ["morton_bits 0", "morton bits too few", "morton overflow"],
    "hilbert_": ["hilbert parameters", "hilbert extent"],
    "is_sorted": ["is_sorted"],
    "mode_order": ["mode_order"],
    "paged_axis": ["paged_axis"],
    "page_size": ["page_size", "per-block on a paged tensor"],
    "kv_role": ["kv_role"],
    "block_table_index_type": ["index type"],
    "composition_rule": ["composition_rule"],
    "combine_op": ["combine_op"],
    "member_count": ["open composite"],
    "head of a composite": ["composite head sections"],
    "layout composite": ["composite head owns nothing"],
    "tiled layout, level 0: reserved": ["reserved bytes of tiled not zero"],
    "coo layout: the 7 reserved": ["reserved bytes of coo not zero"],
    "csr layout: the 8 reserved": ["reserved bytes of csr not zero"],
    "csf layout: the 8 reserved": ["reserved bytes of csf not zero"],
    "block_paged layout: the 6 reserved": ["reserved bytes of block_paged not zero"],
    "composite layout: the 2 reserved": ["reserved bytes of composite not zero"],
    "scheme 0x": ["scheme tag"],
    "scheme ": ["nf4 or mxfp on a paged tensor"],
    "flags of per_tensor": ["scheme flags"],
    "quantization: the 4 reserved": ["reserved bytes of per_tensor not zero"],
    "quantization: the section": [
        "truncated at byte 61",
        "truncated at byte 12",
        "truncated at byte 0",
    ],
    "quantization: axis": ["axis", "dynamic quantization axis", "per-channel on the paged axis"],
    "quantization: stored type": ["storage type"],
    "block_size": [
        "block size power of two",
        "block larger than axis",
        "per_block storage or size",
        "nf4 storage or size",
        "mxfp storage, size or extent",
    ],
    "quantization: scale is": ["scale"],
    "scale_type": ["scale type"],
    "quantization: zero_point ": ["zero point range"],
    "scale_buffer": [
        "parameter buffer index",
        "scale buffer size",
        "shared parameter buffer size",
    ],
    "zero_point_buffer": [
        "zero point buffer size",
        "symmetric and zero point buffer disagree",
    ],
    "shard section": ["shard on csf or block_paged"],
    "shard: ": ["shard box"],
    "computed_mask": ["statistics mask"],
    "statistics: the reserved bytes": ["reserved bytes of statistics not zero"],
    "extension type": ["extension type flag"],
    "extension type: the reserved bytes": ["reserved bytes of extension type not zero"],
    "bit_width": ["bit_width"],
    "packing_factor": ["packing_factor"],
    "is_signed": ["extension booleans", "is_signed on a float"],
    "on an integer": ["float fields on an integer"],
    "member_role": ["member_role"],
    "composite member: the reserved": ["reserved bytes of composite member not zero"],
}
NAME_OF_REASON = {reason: name for name, reasons in NAMES.items() for reason in reasons}
NAME_OF_FILE = {
    "invalid/coo_nnz_huge.bin": "nnz",
    "invalid/shape_bytes_overflow.bin": "elements of 64 bits",
    "invalid/strided_huge.bin": "strides",
    "invalid/stats_reserved.bin": "statistics: the reserved bytes",
    "invalid/shard_dynamic.bin": "shard: dimension 0",
    "invalid/shard_outside.bin": "shard_offset",
    "invalid/shard_wraps.bin": "shard_offset",
    "invalid/q_block_storage.bin": "stored type of per_block",
    "invalid/q_mx_storage.bin": "stored type of mxfp",
    "invalid/q_nf4_storage.bin": "stored type of nf4",
    "invalid/q_mx_partial.bin": "extent 48 of axis 1",
    "invalid/ext_bias.bin": "exponent_bias",
    "invalid/ext_sign_bits.bin": "sign_bits",
    "invalid/ext_signed_2.bin": "is_signed",
    "invalid/hilbert_extent.bin": "extent 4 of dimension 1",
    "invalid/hilbert_rank_1.bin": "rank 1",
    "invalid/head_offset.bin": "byte_offset",
    "invalid/head_with_buffer.bin": "buffer count",
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


def stream_part(item):
    buffers = ", ".join(
        "NULL" if not data else array("uint8_t", bytes.fromhex(data)) for data in item["buffers"]
    )
    literal = f"(const uint8_t *const[]){{{buffers}}}" if buffers else "NULL"
    return f"{{{descriptor_fields(item['descriptor'])},\n      {literal}}}"


def stream(vector):
    parts = ",\n     ".join(stream_part(item) for item in vector["items"])
    literal = f"(const GoldenPart[]){{{parts}}}" if parts else "NULL"
    return f'{{"{vector["file"]}", {len(vector["items"])}, {literal}}}'


def write(path, tables):
    text = "/* Made by vectors_to_c.py from tests/vectors/manifest.json. */\n\n"
    pathlib.Path(path).write_text(text + "\n".join(tables), encoding="utf-8")


def main(manifest_path, vectors_path, streams_path):
    manifest = json.loads(pathlib.Path(manifest_path).read_text(encoding="utf-8"))
    valid, invalid, addressing = [], [], []

    ranks = {}
    for vector in manifest["valid"]:
        descriptor = vector["descriptor"]
        ranks[vector["file"]] = len(descriptor["shape"])
        valid.append(f'{{"{vector["file"]}",\n     {descriptor_fields(descriptor)}}}')

    for vector in manifest["invalid"]:
        code = CODES.get(vector["because"], "0")
        name = NAME_OF_FILE.get(vector["file"]) or NAME_OF_REASON[vector["because"]]
        strings = ", ".join(json.dumps(text) for text in (vector["file"], vector["because"], name))
        invalid.append(f"{{{strings}, {code}}}")

    for vector in manifest["addressing"]:
        index = [extent for row in vector["offsets"] for extent in row[0]]
        offsets = [row[1] for row in vector["offsets"]]
        addressing.append(
            f'{{"{vector["descriptor"]}", {ranks[vector["descriptor"]]}, {len(offsets)},\n'
            f"     {array('uint64_t', index)},\n     {array('int64_t', offsets)}}}"
        )

    write(
        vectors_path,
        [
            table("ValidVector", "valid_vectors", valid),
            table("InvalidVector", "invalid_vectors", invalid),
            table("AddressingVector", "addressing_vectors", addressing),
        ],
    )
    write(
        streams_path,
        [table("GoldenStream", "golden_streams", [stream(v) for v in manifest["streams"]])],
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
