"""Asks every GPU through the driver's own library: context, memory, a fill by the GPU, the same bytes back. Prints one JSON line for each."""

import ctypes
import json
from typing import Any

WORDS = 1 << 20
PATTERN = 0x5A5AC3C3
COMPUTE_MODE = 20


def say(row: Any) -> None:
    print(json.dumps(row, sort_keys=True), flush=True)


def start() -> Any:
    try:
        lib = ctypes.CDLL("libcuda.so.1")
    except OSError as why:
        say({"probe": "cuda", "error": "no_library", "text": str(why)})
        return None
    code = lib.cuInit(0)
    if code:
        say({"probe": "cuda", "step": "cuInit", "code": code})
        return None
    return lib


def named(lib: Any, index: int) -> Any:
    row = {"probe": "cuda", "gpu": index}
    text = ctypes.create_string_buffer(96)
    if not lib.cuDeviceGetPCIBusId(text, 96, index):
        row["bdf"] = text.value.decode()
    if not lib.cuDeviceGetName(text, 96, index):
        row["name"] = text.value.decode()
    mode = ctypes.c_int()
    if not lib.cuDeviceGetAttribute(ctypes.byref(mode), COMPUTE_MODE, index):
        row["mode"] = mode.value
    return row


def works(lib: Any, index: int) -> Any:
    """The first step that failed and its code, or ("bytes", wrong words)."""
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    code = lib.cuDevicePrimaryCtxRetain(ctypes.byref(context), index)
    if code:
        return "cuDevicePrimaryCtxRetain", code
    try:
        back = (ctypes.c_uint32 * WORDS)()
        size = ctypes.c_size_t(4 * WORDS)
        steps: Any = (
            ("cuCtxSetCurrent", lambda: lib.cuCtxSetCurrent(context)),
            ("cuMemAlloc", lambda: lib.cuMemAlloc_v2(ctypes.byref(memory), size)),
            ("cuMemsetD32", lambda: lib.cuMemsetD32_v2(memory, ctypes.c_uint32(PATTERN), ctypes.c_size_t(WORDS))),
            ("cuCtxSynchronize", lambda: lib.cuCtxSynchronize()),
            ("cuMemcpyDtoH", lambda: lib.cuMemcpyDtoH_v2(back, memory, size)),
        )
        for step, call in steps:
            code = call()
            if code:
                return step, code
        return "bytes", sum(1 for word in back if word != PATTERN)
    finally:
        if memory.value:
            lib.cuMemFree_v2(memory)
        lib.cuDevicePrimaryCtxRelease_v2(index)


def main() -> None:
    lib = start()
    if lib is None:
        return
    count = ctypes.c_int()
    code = lib.cuDeviceGetCount(ctypes.byref(count))
    if code or not count.value:
        say({"probe": "cuda", "step": "cuDeviceGetCount", "code": code or 100})
        return
    say({"probe": "cuda", "devices": count.value})
    for index in range(count.value):
        step, code = works(lib, index)
        row = named(lib, index)
        row.update({"ok": True} if step == "bytes" and not code else {"ok": False, "step": step, "code": code})
        say(row)


if __name__ == "__main__":
    main()
