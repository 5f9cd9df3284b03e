// The shortest useful program: allocate, copy, launch on the whole chip, copy back, check.
//
//     python -m atops run vector_add.cpp
#include <tops/tops_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        topsError_t code = (call);                                                                 \
        if (code != topsSuccess) {                                                                 \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, topsGetErrorString(code)); \
            exit(EXIT_FAILURE);                                                                    \
        }                                                                                          \
    } while (0)

constexpr int TILE = 8192;  // 32 KiB of L1

__global__ void add(float *z, const float *x, const float *y, int size) {
    __local__ float a[TILE], b[TILE];
    tops_dte_ctx_t one, two;
    tops::dte_scope first(one), second(two);
    int me = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int start = me * TILE; start < size; start += threads * TILE) {
        int count = size - start < TILE ? size - start : TILE;
        tops::event x_here = tops::memcpy_async(one, tops::mdspan(a, count), tops::mdspan(x + start, count));
        tops::event y_here = tops::memcpy_async(two, tops::mdspan(b, count), tops::mdspan(y + start, count));
        x_here.wait();
        y_here.wait();
        for (int i = 0; i < count; ++i) a[i] += b[i];
        tops::memcpy(one, tops::mdspan(z + start, count), tops::mdspan(a, count));
    }
}

int main() {
    constexpr int SIZE = 1000000;
    constexpr size_t BYTES = SIZE * sizeof(float);
    std::vector<float> x(SIZE), y(SIZE), z(SIZE);
    for (int i = 0; i < SIZE; ++i) x[i] = float(i), y[i] = float(2 * i);

    float *device_x, *device_y, *device_z;
    CHECK(topsMalloc(&device_x, BYTES));
    CHECK(topsMalloc(&device_y, BYTES));
    CHECK(topsMalloc(&device_z, BYTES));
    CHECK(topsMemcpy(device_x, x.data(), BYTES, topsMemcpyHostToDevice));
    CHECK(topsMemcpy(device_y, y.data(), BYTES, topsMemcpyHostToDevice));

    add<<<2, 12>>>(device_z, device_x, device_y, SIZE);
    CHECK(topsGetLastError());

    CHECK(topsMemcpy(z.data(), device_z, BYTES, topsMemcpyDeviceToHost));
    for (int i = 0; i < SIZE; ++i)
        if (z[i] != x[i] + y[i]) return printf("z[%d] is %g\n", i, z[i]), EXIT_FAILURE;
    printf("%d sums are right\n", SIZE);
    CHECK(topsFree(device_x));
    CHECK(topsFree(device_y));
    CHECK(topsFree(device_z));
}
