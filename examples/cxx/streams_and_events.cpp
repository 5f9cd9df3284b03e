// Two streams and an event between them, a constant, a template of a kernel, a callback.
//
//     python -m atops run streams_and_events.cpp
#include <tops/tops_runtime.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

static void check(topsError_t code) {
    if (code != topsSuccess) throw std::runtime_error(std::string(topsGetErrorName(code)) + ": " + topsGetErrorString(code));
}

__constant__ float weights[2];

template <int WHICH>
__global__ void weigh(float *x, int size) {
    int me = blockIdx.x * blockDim.x + threadIdx.x, threads = gridDim.x * blockDim.x;
    for (int i = me; i < size; i += threads) x[i] *= weights[WHICH];
}

static void ended(topsStream_t, topsError_t code, void *user_data) {
    *static_cast<std::string *>(user_data) = topsGetErrorName(code);
}

int main() try {
    constexpr int SIZE = 5000;
    std::vector<float> host(SIZE, 1.0f);
    const float factors[] = {3.0f, 5.0f};
    check(topsMemcpyToSymbol(weights, factors, sizeof factors));

    topsStream_t first, second;
    topsEvent_t weighed;
    check(topsStreamCreate(&first));
    check(topsStreamCreate(&second));
    check(topsEventCreate(&weighed));
    float *x;
    check(topsMalloc(&x, SIZE * sizeof(float)));

    check(topsMemcpyAsync(x, host.data(), SIZE * sizeof(float), topsMemcpyHostToDevice, first));
    weigh<0><<<dim3(2), dim3(12), 0, first>>>(x, SIZE);
    check(topsEventRecord(weighed, first));
    check(topsStreamWaitEvent(second, weighed, 0));  // what the second stream does comes after the first kernel
    weigh<1><<<2, 12, 0, second>>>(x, SIZE);
    check(topsMemcpyAsync(host.data(), x, SIZE * sizeof(float), topsMemcpyDeviceToHost, second));
    std::string said;
    check(topsStreamAddCallback(second, ended, &said, 0));
    check(topsStreamSynchronize(second));

    int wrong = 0;
    for (float each : host) wrong += each != 15.0f;
    printf("%d of %d are wrong; the callback was told %s\n", wrong, SIZE, said.c_str());

    weigh<0><<<1, 100>>>(x, SIZE);  // more threads than a block has
    try {
        check(topsGetLastError());
    } catch (const std::runtime_error &error) {
        printf("%s\n", error.what());
    }
    check(topsFree(x));
    return wrong != 0;
} catch (const std::exception &error) {
    fprintf(stderr, "%s\n", error.what());
    return 1;
}
