// A host program that makes a kernel while it runs: its text is compiled, loaded and launched by pointers to its arguments.
//
//     python -m atops run examples/cxx/runtime_compilation.cpp
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <tops/tops_runtime.h>
#include <tops/topsrtc.h>

#define CHECK(call) \
    if (int code = call) return std::printf("%s: %d\n", #call, code), 1

int main() {
    const char *text =
        "#include \"shape.h\"\n"
        "extern \"C\" __global__ void affine(float *y, const float *x, int n, float scale) {\n"
        "    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)\n"
        "        y[i] = scale * x[i] + OFFSET;\n"
        "}\n";
    const char *headers[] = {"#define OFFSET 0.5f\n"}, *names[] = {"shape.h"}, *options[] = {"-DUNUSED=1"};
    topsrtcProgram program;
    CHECK(topsrtcCreateProgram(&program, text, "affine.tops", 1, headers, names));
    if (topsrtcCompileProgram(program, 1, options) != TOPSRTC_SUCCESS) {
        size_t size;
        CHECK(topsrtcGetProgramLogSize(program, &size));
        std::vector<char> log(size);
        CHECK(topsrtcGetProgramLog(program, log.data()));
        return std::printf("%s\n", log.data()), 1;
    }
    size_t size;
    CHECK(topsrtcGetCodeSize(program, &size));
    std::vector<char> image(size);
    CHECK(topsrtcGetCode(program, image.data()));
    CHECK(topsrtcDestroyProgram(&program));

    topsModule_t module;
    topsFunction_t affine;
    CHECK(topsModuleLoadData(&module, image.data()));
    CHECK(topsModuleGetFunction(&affine, module, "affine"));

    int n = 10000;
    float scale = 2, *x, *y;
    std::vector<float> host(n);
    for (int i = 0; i < n; ++i) host[i] = float(i);
    CHECK(topsMalloc(&x, n * sizeof(float)));
    CHECK(topsMalloc(&y, n * sizeof(float)));
    CHECK(topsMemcpy(x, host.data(), n * sizeof(float), topsMemcpyHostToDevice));
    void *arguments[] = {&y, &x, &n, &scale};
    CHECK(topsModuleLaunchKernel(affine, 2, 1, 1, 12, 1, 1, 0, nullptr, arguments, nullptr));
    CHECK(topsMemcpy(host.data(), y, n * sizeof(float), topsMemcpyDeviceToHost));
    int right = 0;
    for (int i = 0; i < n; ++i) right += host[i] == 2.0f * float(i) + 0.5f;
    std::printf("%d values are right\n", right);
    CHECK(topsFree(x));
    CHECK(topsFree(y));
    CHECK(topsModuleUnload(module));
    return right != n;
}
