"""The first device of each kind, in standard memory (spec 1.6).

Another one is ``hurray.Device(kind, device_id, memory_class)``.
"""

from ._core import Device

__all__ = [
    "cpu",
    "cuda",
    "hexagon",
    "level_zero",
    "metal",
    "opencl",
    "rocm",
    "vulkan",
    "webgpu",
]

cpu = Device("cpu")
cuda = Device("cuda")
rocm = Device("rocm")
metal = Device("metal")
vulkan = Device("vulkan")
webgpu = Device("webgpu")
hexagon = Device("hexagon")
level_zero = Device("level_zero")
opencl = Device("opencl")
