# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Photographs on two devices
#
# Three photographs are softened and their outlines drawn, on a board with two devices, while you watch. The kernels
# are compiled from cells of this notebook, and everything is compared with numpy at the end.

# %%
# %load_ext atops_widgets
import asyncio
import struct
import zlib

import numpy as np
import pywt.data
from IPython.display import HTML, Image

import atops
from atops_widgets import watch

photographs = {
    "aero": pywt.data.aero(),
    "ascent": pywt.data.ascent(),
    "camera": pywt.data.camera(),
}

# %% [markdown]
# A picture needs no library: PNG is a header, the rows with a zero before each, compressed, and an end.


# %%
def png(pixels):
    """Return a grey picture, values 0 to 255, as PNG."""

    def chunk(body):
        return struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))

    height, width = pixels.shape
    rows = np.pad(pixels.clip(0, 255).astype(np.uint8), ((0, 0), (1, 0))).tobytes()
    header = chunk(b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT" + zlib.compress(rows, 1)) + chunk(b"IEND")


Image(png(np.hstack(list(photographs.values()))), width=900, alt="land from above, a stairway, a cameraman")

# %% [markdown]
# ## The board
#
# Two devices, each with its memory and its engines, joined by a link.

# %%
board = atops.Driver(atops.EmulatorOptions(devices=2))
devices = [atops.Device(ordinal, board) for ordinal in range(2)]
# %atops

# %% [markdown]
# ## Three kernels
#
# Each thread takes bands of eight rows. To soften a pixel it needs its neighbours, two to each side, so that a band
# comes with two more rows above and below, and the result is four rows and four columns smaller than the picture.
# Outlines are where the brightness changes: a Sobel filter, one row to each side.
#
# The cells below are **kernel source**: `k` and `np` are there without an import, and `ROWS` comes from the first
# line, as an option of the compiler.

# %%
# %%kernel -DROWS=8
@k.kernel
async def soften(out, picture):
    rows, columns = out.shape
    weights = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)
    band = k.local((ROWS + 4, columns + 4), np.float32)
    result = k.local((ROWS, columns), np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(rows, ROWS):
            count = part.stop - part.start
            await k.memcpy_async(dte, band[: count + 4], picture[part.start : part.stop + 4])
            across = sum(weight * band[:, at : at + columns] for at, weight in enumerate(weights))
            result[:count] = sum(weight * across[at : at + count] for at, weight in enumerate(weights))
            await k.memcpy_async(dte, out[part], result[:count])


@k.kernel
async def outline(out, picture):
    rows, columns = out.shape
    band = k.local((ROWS + 2, columns + 2), np.float32)
    result = k.local((ROWS, columns), np.float32)
    with k.dte_scope() as dte:
        for part in k.tiles(rows, ROWS):
            count = part.stop - part.start
            await k.memcpy_async(dte, band[: count + 2], picture[part.start : part.stop + 2])
            b = band[: count + 2]
            right, left, below, above = b[:, 2:], b[:, :-2], b[2:], b[:-2]
            change = right - left
            level = change[:-2] + 2 * change[1:-1] + change[2:]
            change = below - above
            upright = change[:, :-2] + 2 * change[:, 1:-1] + change[:, 2:]
            result[:count] = np.hypot(level, upright)
            await k.memcpy_async(dte, out[part], result[:count])


# %% [markdown]
# The third is a reduction: the sum and the strongest of all outlines. Threads meet in the shared memory of their
# block, and the first of each block writes one line of the result.

# %%
# %%kernel -DROWS=8
@k.kernel
async def measure(out, picture):
    rows, columns = picture.shape
    band = k.local((ROWS, columns), np.float32)
    line = k.local(2, np.float64)
    line[:] = 0
    found = k.shared((12, 2), np.float64)
    with k.dte_scope() as dte:
        for part in k.tiles(rows, ROWS):
            seen = band[: part.stop - part.start]
            await k.memcpy_async(dte, seen, picture[part])
            line[0] += seen.sum(dtype=np.float64)
            line[1] = max(line[1], seen.max())
        found[k.threadIdx.x] = line
        await k.syncthreads()
        if k.threadIdx.x == 0:
            line[0], line[1] = found[:, 0].sum(), found[:, 1].max()
            k.memcpy(dte, out[k.blockIdx.x], line)


# %% [markdown]
# A mistake in the source is a compiler's message, with its line and its column. It costs nothing: the kernels above
# are still there.

# %% tags=["raises-exception"]
# %%kernel -DROWS=8
@k.kernel
async def soften(out, picture):
    band = k.locl((ROWS, 12), np.float32)
    return band


# %% [markdown]
# ## Three at once
#
# Each photograph has a stream of its own; photographs take turns on the devices. `develop` enqueues everything and
# waits only for its results, so that a copy of one photograph runs beside a kernel of another. Watch it from here:

# %%
watched = watch(board)
watched


# %%
async def develop(photograph, device):
    height, width = photograph.shape
    async with device.create_stream(name=f"photographs {device.id}") as stream:  # frees what it allocated
        picture = stream.upload(photograph.astype(np.float32))
        soft = stream.empty((height - 4, width - 4))
        lines = stream.empty((height - 6, width - 6))
        figures = stream.empty((2, 2), np.float64)
        stream.launch(soften, (2, 12), soft, picture)
        stream.launch(outline, (2, 12), lines, soft)
        stream.launch(measure, (2, 12), figures, lines)
        fetched = stream.fetch(soft), stream.fetch(lines), stream.fetch(figures)
        return [await each for each in fetched]


developed = await asyncio.gather(
    *(develop(photograph, devices[turn % 2]) for turn, photograph in enumerate(photographs.values()))
)
Image(png(np.hstack([soft for soft, _, _ in developed])), width=900, alt="the three photographs, softened")

# %%
Image(png(np.hstack([255 - lines for _, lines, _ in developed])), width=900, alt="the outlines of all three")

# %% [markdown]
# ## The same in numpy
#
# Every pixel is compared. The emulator computes with numpy too, but band by band, in 24 threads, over two devices.

# %%
table = ["<tr><th>photograph<th>mean outline<th>strongest</tr>"]
for (name, photograph), (soft, lines, figures) in zip(photographs.items(), developed, strict=True):
    windows = np.lib.stride_tricks.sliding_window_view(photograph.astype(np.float32), (5, 5))
    weights = np.outer((1, 4, 6, 4, 1), (1, 4, 6, 4, 1)) / 256
    assert np.allclose(soft, np.einsum("ijkl,kl->ij", windows, weights), atol=1e-3)

    windows = np.lib.stride_tricks.sliding_window_view(soft, (3, 3))
    sobel = np.outer((1, 2, 1), (-1, 0, 1))
    across, down = (np.einsum("ijkl,kl->ij", windows, filter) for filter in (sobel, sobel.T))
    assert np.allclose(lines, np.hypot(across, down), atol=1e-2)

    assert np.isclose(figures[:, 0].sum(), lines.sum(dtype=np.float64)) and figures[:, 1].max() == lines.max()
    table.append(f"<tr><td>{name}<td>{figures[:, 0].sum() / lines.size:.1f}<td>{figures[:, 1].max():.0f}</tr>")
HTML(f"<table>{''.join(table)}</table>")

# %% [markdown]
# The board was made here, so it is closed here. The pictures stay.

# %%
watched.stop()
await board.aclose()
