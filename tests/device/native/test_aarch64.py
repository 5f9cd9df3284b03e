"""The switch between fibers on aarch64: built by a cross compiler and run under qemu, where both are installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from atops.device.native.library import SOURCES

COMPILER, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"

HARNESS = """
#include <cstdio>
#include "fiber.h"
using namespace atops;
static void *scheduler; static Fiber *running; static int steps;
static void entry() {
    double kept = running->thread + 0.5;  // lies in a register that a call keeps
    for (int i = 0; ; ++i) {
        steps += 1; kept += 1;
        if (i == 999) { std::printf("%.1f ", kept); running->state = State::over; }
        atops_switch(&running->sp, scheduler);
    }
}
int main() {
    Fiber *fibers[12];
    for (int i = 0; i < 12; ++i) {
        fibers[i] = take_fiber(); fibers[i]->thread = i; fibers[i]->state = State::ready; prepare(fibers[i], entry);
    }
    for (int round = 0; round < 1000; ++round)
        for (auto *each : fibers) { running = each; atops_switch(&scheduler, each->sp); }
    int over = 0;
    for (auto *each : fibers) { over += each->state == State::over; give_fiber(each); }
    std::printf("%d %d", steps, over);
}
"""


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason=f"needs {COMPILER}, {EMULATOR}")
def test_fibers_switch(tmp_path: Path) -> None:
    """Twelve take a thousand turns each, and keep what a call keeps."""
    (tmp_path / "harness.cpp").write_text(HARNESS)
    units = [str(tmp_path / "harness.cpp"), str(SOURCES / "fiber.cpp")]
    made = str(tmp_path / "harness")
    subprocess.run([COMPILER, "-std=c++20", "-O2", "-static", f"-I{SOURCES}", *units, "-o", made], check=True)
    said = subprocess.run([EMULATOR, made], capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.split() == [f"{1000.5 + each:.1f}" for each in range(12)] + ["12000", "12"]
