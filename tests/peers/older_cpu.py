"""Holds ONNX Runtime back to AVX2, which it has no setting for.

    env $(venv/bin/python older_cpu.py /tmp/older) RIDDLE_FORCE_ISA=avx2 venv/bin/python rerank.py MODEL REQUEST ...

It asks the processor by the instruction `cpuid`. In a copy of the installed package every such instruction is made a
breakpoint, and a library that is loaded before answers it as the processor does, without AVX-512, AVX-VNNI and AMX.
Needs objdump, readelf and a C compiler; x86-64 Linux only. Prints the environment for processes that shall use the copy.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

ANSWER = r"""
#define _GNU_SOURCE
#include <cpuid.h>
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#define BIT(n) (1u << (n))

static void answer(int number, siginfo_t *info, void *context) {
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    uint32_t leaf = regs[REG_RAX], part = regs[REG_RCX], a, b, c, d;
    (void)number, (void)info;
    __cpuid_count(leaf, part, a, b, c, d);
    if (leaf == 7 && part == 0) {
        /* AVX-512 F, DQ, IFMA, PF, ER, CD, BW, VL; VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ; 4VNNIW, 4FMAPS,
           VP2INTERSECT, AMX-BF16, FP16, AMX-TILE, AMX-INT8. */
        b &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31));
        c &= ~(BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14));
        d &= ~(BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25));
    } else if (leaf == 7 && part == 1) {
        /* AVX-VNNI, AVX512-BF16, AMX-FP16, AVX-IFMA; AVX-VNNI-INT8, AVX-NE-CONVERT, AMX-COMPLEX, AVX-VNNI-INT16, AVX10. */
        a &= ~(BIT(4) | BIT(5) | BIT(21) | BIT(23));
        d &= ~(BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19));
    }
    regs[REG_RAX] = a, regs[REG_RBX] = b, regs[REG_RCX] = c, regs[REG_RDX] = d;
}

__attribute__((constructor)) static void begin(void) {
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, 0);
}
"""
CPUID, BREAKPOINT = b"\x0f\xa2", b"\xcc\x90"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    work = Path(sys.argv[1])
    site, library = work / "site", work / "answer.so"
    if not library.exists():
        package = importlib.util.find_spec("onnxruntime")
        if package is None:
            sys.exit("onnxruntime is not installed here: see requirements.txt")
        shutil.copytree(Path(package.origin).parent, site / "onnxruntime", dirs_exist_ok=True)
        changed = sum(hold_back(it) for it in site.glob("onnxruntime/capi/*.so*"))
        if changed == 0:
            sys.exit("no cpuid was found: this package asks in another way")
        compiler = ["cc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", library]
        subprocess.run(compiler, input=ANSWER, text=True, check=True)
    print(f"LD_PRELOAD={library.resolve()} PYTHONPATH={site.resolve()}")


def hold_back(library):
    """Makes breakpoints of the library's questions, and says how many."""
    code = bytearray(library.read_bytes())
    places = [it for it in questions(library) if code[it : it + 2] == CPUID]
    for place in places:
        code[place : place + 2] = BREAKPOINT
    library.write_bytes(code)
    return len(places)


def questions(library):
    """Where in the file `cpuid` stands."""
    sections = [
        tuple(int(it, 16) for it in match)
        for match in re.findall(
            r"PROGBITS\s+([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", output("readelf", "-SW", library)
        )
    ]
    for line in re.finditer(
        r"^\s*([0-9a-f]+):\tcpuid", output("objdump", "-d", "--no-show-raw-insn", library), re.M
    ):
        address = int(line[1], 16)
        for start, offset, size in sections:
            if start and start <= address < start + size:
                yield offset + address - start


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


main()
