#!/usr/bin/env python3
"""Makes the C tables of files.h from tests/vectors/manifest.json.

files_to_c.py MANIFEST OUTPUT
"""

import json
import pathlib
import sys

from vectors_to_c import array, descriptor_fields, number, table

# What the message of a refusal has to name: the field or rule, and the entry where there is one.
NAMES = {
    "head_magic": "header: magic",
    "tail_magic": "trailer: magic",
    "major_2": "container_version_major is 2",
    "major_0": "container_version_major is 0",
    "header_reserved": "header: the reserved bytes 10",
    "header_reserved_2": "header: the reserved bytes 36",
    "flag_3": "file_flags 0x0000000d",
    "trailer_reserved": "trailer: the reserved bytes",
    "alignment_2048": "data_buffer_alignment is 2048",
    "alignment_6144": "data_buffer_alignment is 6144",
    "alignment_4194304": "data_buffer_alignment is 4194304",
    "alignment_0": "data_buffer_alignment is 0",
    "first_descriptor_56": "first_descriptor_offset is 56",
    "first_descriptor_72": "first_descriptor_offset",
    "first_descriptor_odd": "first_descriptor_offset is 65",
    "crc_wrong": "CRC-32C",
    "crc_without_flag": "HAS_INDEX_CRC32C",
    "index_byte_flipped": "CRC-32C",
    "index_past_trailer": "reach past the trailer",
    "index_offset_huge": "index_offset 18446744073709551608",
    "index_in_header": "index_offset is 8, within the header",
    "index_unaligned": "index_offset is 16465",
    "kv_overlaps_index": "overlaps the index",
    "kv_unaligned": "kv_offset is 16428",
    "kv_offset_huge": "kv_offset 18446744073709551608",
    "kv_slack": "bytes follow the 3 metadata entries",
    "kv_short": "metadata entry 2",
    "kv_flag_without_section": "HAS_KV_METADATA",
    "kv_offset_without_length": "kv_length of 0",
    "sorted_but_not": 'entry 1 "v": SORTED_INDEX',
    "count_huge": "the count is 18446744073709551615",
    "count_one_less": "follow its 1 entries",
    "count_one_more": "the count is 3",
    "name_duplicate": 'entry 1 "w": entry 0 has the same name',
    "name_not_utf8": "entry 1: the name of 1 bytes is not UTF-8",
    "name_empty": "entry 1: the name is empty",
    "descriptor_offset_odd": "descriptor_offset is 65",
    "descriptor_offset_huge": "at 18446744073709551608 lies outside the tensor region",
    "descriptor_in_header": "at 0 lies outside the tensor region",
    "descriptor_length_plus_1": 'entry 0 "w": descriptor_length is 62',
    "data_unaligned": "data_offset is 4160",
    "data_huge": "data_offset 18446744073709547520 lies outside",
    "data_length_plus_1": "overlap",
    "data_length_minus_1": 'entry 0 "w": data_length is 15',
    "entry_flags": "entry 0: flags are 0x00000001",
    "data_shared_by_two": "overlap",
    "descriptor_broken": 'entry 0 "w": magic',
    "kv_bool_2": 'metadata entry 1 ("flag")',
    "kv_tag_8": "value_tag is 8",
    "kv_tag_0": "value_tag is 0",
    "kv_duplicate": 'metadata entry 2 ("a")',
    "kv_string_not_utf8": "not UTF-8",
    "kv_count_huge": "cannot hold 4294967295 entries",
    "truncated_by_1": "trailer: magic",
    "only_header": "the file has 64 bytes",
    "103_bytes": "the file has 103 bytes",
    "empty": "the file has 0 bytes",
    "trailing_byte": "trailer: magic",
    "torn_composite": "torn",
    "kv_nested_array": "element tag is 7",
    "partition_gap": "partition",
}

# Faults that are a descriptor's own, or a composite's, with statuses of theirs.
STATUSES = {
    "descriptor_broken": "HURRAY_ERR_INVALID_MAGIC",
    "partition_gap": "HURRAY_ERR_INTERNAL",
}

# JSON has no bytes: which strings of the manifest are hexadecimal.
BYTES = {("files/everything.hrry", "signature")}


def text(data):
    octal = "".join(f"\\{byte:03o}" for byte in data)
    return f'{{"{octal}", {len(data)}}}'


def scalar(value):
    """The tag of a value, and its HurrayScalar."""
    if isinstance(value, bytes):
        return "HURRAY_VALUE_BYTES", f"{{.text = {text(value)}}}"
    if isinstance(value, str):
        return "HURRAY_VALUE_STRING", f"{{.text = {text(value.encode())}}}"
    if isinstance(value, bool):
        return "HURRAY_VALUE_BOOL", f"{{.boolean = {str(value).lower()}}}"
    if isinstance(value, float):
        return "HURRAY_VALUE_FLOAT64", f"{{.float64 = {number(value, 'double')}}}"
    if value < 2**63:
        return "HURRAY_VALUE_INT64", f"{{.int64 = {number(value, 'int64_t')}}}"
    return "HURRAY_VALUE_UINT64", f"{{.uint64 = {number(value, 'uint64_t')}}}"


def metadata(file, key, value):
    if (file, key) in BYTES:
        value = bytes.fromhex(value)
    rows = [scalar(element) for element in (value if isinstance(value, list) else [value])]
    tag, element_tag = (
        ("HURRAY_VALUE_ARRAY", rows[0][0]) if isinstance(value, list) else (rows[0][0], "0")
    )
    values = ", ".join(row[1] for row in rows)
    return (
        f"{{{text(key.encode())}, {tag}, {element_tag}, {len(rows)}, "
        f"(const HurrayScalar[]){{{values}}}}}"
    )


def tensor(item):
    buffers = ", ".join(
        "NULL" if not data else array("uint8_t", bytes.fromhex(data)) for data in item["buffers"]
    )
    literal = f"(const uint8_t *const[]){{{buffers}}}" if buffers else "NULL"
    name = text(item["name"].encode())
    return f"{{{name}, {descriptor_fields(item['descriptor'])},\n      {literal}}}"


def golden(vector):
    file = vector["file"]
    tensors = ",\n     ".join(tensor(item) for item in vector["tensors"])
    values = ",\n     ".join(metadata(file, *pair) for pair in vector["kv"].items())
    return (
        f'{{"{file}", {len(vector["tensors"])}, '
        f"{f'(const GoldenTensor[]){{{tensors}}}' if tensors else 'NULL'},\n     "
        f"{len(vector['kv'])}, {f'(const HurrayKeyValue[]){{{values}}}' if values else 'NULL'}}}"
    )


def refused(vector):
    name = pathlib.PurePosixPath(vector["file"]).stem
    status = STATUSES.get(name, "HURRAY_ERR_FILE_INVALID")
    return f'{{"{vector["file"]}", {json.dumps(NAMES[name])}, {status}}}'


def main(manifest_path, output_path):
    manifest = json.loads(pathlib.Path(manifest_path).read_text(encoding="utf-8"))
    tables = [
        table("GoldenFile", "golden_files", [golden(vector) for vector in manifest["files"]]),
        table("RefusedFile", "refused_files", [refused(v) for v in manifest["files_invalid"]]),
    ]
    comment = "/* Made by files_to_c.py from tests/vectors/manifest.json. */\n\n"
    pathlib.Path(output_path).write_text(comment + "\n".join(tables), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
