"""The golden vectors of an independent encoder, and what their fields are in Python."""

from __future__ import annotations

import json
import pathlib

import hurray

VECTORS = pathlib.Path(__file__).parents[1] / "vectors"
MANIFEST = json.loads((VECTORS / "manifest.json").read_text())
DYNAMIC = 2**64 - 1
NO_LAYER = 2**32 - 1


def read(file: str) -> bytes:
    return (VECTORS / file).read_bytes()


def shape_of(fields: dict) -> tuple:
    return tuple(None if extent == DYNAMIC else extent for extent in fields["shape"])


def _tiled(f: dict) -> hurray.TiledLayout:
    inner = f.get("inner_tiled")
    return hurray.TiledLayout(
        f["tile_shape"],
        f["outer"],
        f["inner"],
        f.get("outer_strides"),
        f.get("inner_strides"),
        None if inner is None else _tiled(inner),
    )


def _paged(f: dict) -> hurray.BlockPagedLayout:
    return hurray.BlockPagedLayout(
        f["page_size"],
        f["num_pages"],
        f["paged_axis"],
        f["num_seqs"],
        ["key", "value", "fused"][f["kv_role"]],
        None if f["layer_index"] == NO_LAYER else f["layer_index"],
        ["uint32", "uint64"][f["index_type"]],
    )


def _composite(f: dict) -> hurray.CompositeLayout:
    rule = [None, "partition", "overlay", "group"][f["rule"]]
    return hurray.CompositeLayout(rule, f["members"], [None, "replace", "add"][f["combine"]])


LAYOUTS = {
    "row_major": lambda f: hurray.RowMajorLayout(),
    "col_major": lambda f: hurray.ColMajorLayout(),
    "strided": lambda f: hurray.StridedLayout(f["strides"]),
    "tiled": _tiled,
    "morton": lambda f: hurray.MortonLayout(f["bits"]),
    "hilbert": lambda f: hurray.HilbertLayout(f["order"], f["rank"]),
    "coo": lambda f: hurray.CooLayout(f["nnz"], f["is_sorted"]),
    "csr": lambda f: hurray.CsrLayout(f["nnz"]),
    "csc": lambda f: hurray.CscLayout(f["nnz"]),
    "csf": lambda f: hurray.CsfLayout(f["nnz"], f["mode_order"]),
    "block_paged": _paged,
    "composite": _composite,
}


def layout_of(fields: dict) -> hurray.Layout:
    return LAYOUTS[fields["layout"]["name"]](fields["layout"])


def _affine(cls: type, f: dict, *arguments: object, **more: object) -> object:
    points = f["zero_point_buffer"]
    if points is None:
        return cls.symmetric(*arguments, f["scale_buffer"], **more)
    return cls.asymmetric(*arguments, f["scale_buffer"], points, **more)


SCHEMES = {
    "per_tensor": lambda f: hurray.PerTensorAffine(f["scale"], f["zero_point"]),
    "per_channel": lambda f: _affine(hurray.PerChannelAffine, f, f["axis"]),
    "per_block": lambda f: _affine(
        hurray.PerBlockAffine,
        f,
        f["axis"],
        f["block_size"],
        scale_type=hurray.Dtype.from_name(f["scale_type"]),
    ),
    "nf4": lambda f: hurray.NF4(f["axis"], f["block_size"], f["scale_buffer"]),
    "mxfp": lambda f: hurray.MXFP(f["axis"], f["block_size"], f["scale_buffer"]),
}


def quantization_of(fields: dict) -> object:
    scheme = fields.get("quantization")
    return None if scheme is None else SCHEMES[scheme["scheme"]](scheme)


def shard_of(fields: dict) -> hurray.Shard | None:
    shard = fields.get("shard")
    return None if shard is None else hurray.Shard(**shard)


def extension_type_of(fields: dict) -> hurray.ExtensionType | None:
    section = fields.get("extension_type")
    if section is None:
        return None
    arguments = {name: value for name, value in section.items() if name != "packing_factor"}
    return hurray.ExtensionType(**arguments)
