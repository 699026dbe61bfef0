"""Machine code of a kernel: made of numba's modules once, kept as an object file, loaded by LLVM.

What loads it imports llvmlite and not numba, whose import and start take longer than a small run.
It is made for every processor of a kind (``x86-64``, not the one at hand), so that a file may be
made elsewhere.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from functools import cache
from typing import Any, Final

ENTRY: Final = "flowcontrol_advance"
"""Name of the entry in an object file."""

BASELINE: Final = {"x86_64": "x86-64", "amd64": "x86-64"}
"""The processor that code is made for, by the name of the machine; others: LLVM's least one."""

OPTIMIZATION: Final = 2
"""Level of LLVM: the third takes as long again, and rounds are no quicker."""


@cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def _machine() -> Any:
    llvm = _llvm()
    processor = BASELINE.get(platform.machine().lower(), "")
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=processor, opt=OPTIMIZATION, reloc="pic", jit=True)


def object_file(module: Any, entry: str) -> bytes:
    """Optimise a module, and return its machine code as an object file."""
    llvm, machine = _llvm(), _machine()
    for found in (*module.functions, *module.global_variables):
        if not found.is_declaration and found.name != entry:
            found.linkage = "internal"  # nobody else calls it: what is inlined everywhere goes
    module.get_function(entry).name = ENTRY
    options = llvm.create_pipeline_tuning_options(speed_level=OPTIMIZATION)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def load(code: bytes) -> Callable[[Any, int], int]:
    """Return the entry of an object file: it takes a memory and a round, and returns flags.

    The entry has the form that numba gives a function of an array and a number: places for the
    result and for an exception, the array's owners, size and address, the number. It lets other
    threads run meanwhile.
    """
    llvm = _llvm()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    array = (pointer, pointer, number, number, pointer, number, number)
    form = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, *array, number)
    entry = form(engine.get_function_address(ENTRY))

    def advance(memory: Any, end: int, _engine: Any = engine) -> int:  # which owns the code
        flags, problem = ctypes.c_int64(), ctypes.c_void_p()
        places = ctypes.addressof(flags), ctypes.addressof(problem)
        cells = None, None, memory.size, 8, memory.ctypes.data, memory.size, 8
        if entry(*places, *cells, end) != 0:
            raise RuntimeError("the compiled kernel ended with an exception")  # it has none
        return flags.value

    return advance
