// What the emulator's native runtime and compiled kernels say to each other. Both are built from this file, so that its
// VERSION is all that has to agree. Plain structs and functions: no object of the C++ library passes between them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace atops {

constexpr uint32_t VERSION = 11;
constexpr int MOST_DIMENSIONS = 8;  // of an operand of the DTE

struct Dim {
    uint32_t x, y, z;
};

// Where in the program something is asked for. The file is a literal of the module, which outlives its launches.
struct Site {
    const char *file;
    int line;
};

enum class Fault : int32_t {
    none, launch_failure, dte_error, illegal_address, deadlock, out_of_resources, kernel_assert, stopped, barrier_error,
    process_ended,
};

enum class Space : int32_t { unknown = 0, global = 1, shared = 2, local = 3 };

// ---- the DTE: each operation takes something of src, turns it, and lands it in dst (as device/dte/stages.py has it)

enum class Take : uint8_t { none, all, window };
enum class Turn : uint8_t { plain, permute, mirror_x, mirror_y, stride, expand, shrink, replace };
enum class Land : uint8_t { bytes, fill, whole, window, padded, repeated };

struct Operand {
    void *address;
    int32_t rank;  // 0: none
    uint32_t item;  // bytes of an element
    Space space;  // as the program says; unknown: by its address
    int64_t extents[MOST_DIMENSIONS];
};

struct Transfer {
    const char *name = nullptr;
    Take take = Take::none;
    Turn turn = Turn::plain;
    Land land = Land::bytes;
    bool has_shape = false;  // slice_shape counts
    int32_t phase = 0, ratio = 0;
    int32_t gcu_arch = 0;  // the first that has the operation
    int32_t numbers_given[7] = {};  // to each of the seven lists, in their order
    uint64_t value = 0;  // the bits of an element
    Operand dst = {}, src = {};
    // As many numbers of each as were given; the others are never read.
    int64_t src_offsets[MOST_DIMENSIONS], slice_shape[MOST_DIMENSIONS], dst_offsets[MOST_DIMENSIONS];
    int64_t layout[MOST_DIMENSIONS];  // or strides
    int64_t low[MOST_DIMENSIONS], high[MOST_DIMENSIONS], mid[MOST_DIMENSIONS];

    Transfer() = default;
    Transfer(const Transfer &other) { *this = other; }
    // Copy what counts: memcpy and memset, which most transfers are, have none of the lists.
    Transfer &operator=(const Transfer &other) {
        bool plain = other.land == Land::bytes || other.land == Land::fill;
        __builtin_memmove(static_cast<void *>(this), &other, plain ? offsetof(Transfer, src_offsets) : sizeof other);
        return *this;
    }
};

// A context of the program, and what it has in flight or is configured to do.
struct Context {
    uint32_t state;  // 0 declared, 1 ready, 2 destroyed
    uint32_t shared;
    uint32_t busy;
    uint32_t serial;  // of its transfers
    const void *owner;
    Site declared, issued;
    Context *earlier;  // each transfer begins after one of this context, the first behind the `taken`th
    uint32_t taken;
    Transfer transfer;
};

struct Event {
    Context *context;
    uint32_t serial;
};

struct CountedBarrier {
    int32_t count, left;
    uint32_t phase;
    int32_t scope;
};

// ---- what the runtime does for a kernel

struct Runtime {
    uint32_t version;
    void (*sync_threads)(Site);
    void (*sync_blocks)(Site);
    void *(*shared)(const void *key, size_t bytes, size_t align, bool *fresh, Site);
    void *(*local)(const void *key, size_t bytes, size_t align, bool *fresh, Site);
    void *(*dynamic_shared)(size_t *bytes);
    void (*context)(Context *, int what, Site);  // 0 init, 1 destroy, 2 connect, 3 init for as long as it is there
    void (*transfer)(Context *, const Transfer *, Site);
    Event (*issue)(Context *, const Transfer *, Site);
    void (*wait)(Event, Site);
    void (*barrier)(CountedBarrier *, int what, Site);  // 0 made, 1 arrive, 2 wait, 3 both
    void (*print)(const char *text, size_t bytes);
    void (*yield)(Site);
    void (*fail)(Fault, const char *text, Site);  // does not return
    // Objects in shared memory, which one thread constructs for all: before it begins, and once they are there.
    void (*constructs)(void *place, size_t bytes, bool over);
    void (*sync_grid)(Site);  // the blocks of this grid, whatever was launched with it
};

// Where a module keeps what its kernels know of the thread that runs, for each OS thread.
struct Slots {
    Dim *thread_index, *block_index, *block_extent, *grid_extent;
};

struct ParameterRow {
    int8_t kind;  // of numpy: 'i', 'u', 'f', 'b', 'e' (brain float), 'V' (bytes), 'P' (pointer)
    int8_t element;  // of a pointer, the kind of what it points to; 'V' where that is not known
    uint16_t element_bytes;
    uint32_t bytes;
};

struct KernelRow {
    const char *name;
    void (*enter)(void **arguments);
    const ParameterRow *parameters;
    int32_t count;
    int32_t cooperative;
    const char *names;  // of its parameters, separated by spaces
    const char *file;
    int32_t line;
};

// A variable of the device. What it begins with lies in the module; where it is on a device, the host says (`place`).
struct VariableRow {
    const char *name;
    const void *initial;
    uint64_t bytes;
    int8_t kind;
    uint16_t element_bytes;
    int32_t constant;
    int32_t rank;
    int64_t extents[MOST_DIMENSIONS];
    const char *file;
    int32_t line;
};

// What a module has, returned by its one exported function `atops_module`.
struct Module {
    uint32_t version;
    void (*attach)(const Runtime *);
    void (*slots)(Slots *);
    const KernelRow *kernels;
    int32_t kernel_count;
    const VariableRow *variables;
    int32_t variable_count;
};

// ---- what the host gives for a run, and gets back

struct Range {
    uint64_t low, high;
};

struct Pad {  // an L1 or L2
    uint8_t *bytes;
    uint64_t capacity;
};

struct BlockPlace {
    Dim index;
    Pad l2;
    const Pad *l1;  // one for each thread
    uint64_t l2_used, l1_used;  // set by the run: the most that was in use
};

struct FaultText {
    char file[512];
    char text[4096];
};

struct Run {
    uint32_t version;
    uint32_t gcu_arch;
    const Module *module;
    void (*enter)(void **);
    void **arguments;
    Dim grid, block;
    int32_t blocks;  // that are run here
    int32_t cooperative;  // 2 with grids of other devices
    BlockPlace *places;  // set by the run: they lie behind it
    uint64_t dynamic_shared;
    int32_t seeded;
    uint64_t seed;
    int32_t eager;  // transfers take effect at the issue
    int32_t strict;  // a context that is never destroyed is a fault
    int32_t library_heap;  // the module has memory that the C++ library takes, for new; 2: and frees, of strings
    volatile int32_t stop;  // set by the host
    const Range *ranges;  // live memory that the arguments name, ascending
    int32_t range_count;
    int32_t (*find)(uint64_t address, Range *found);  // asks the host for any other live memory
    void (*print)(const char *text, uint64_t bytes);
    uint64_t text_low, text_high;  // where the code of the module lies
    // What came of it.
    int32_t fault;
    Dim fault_block, fault_thread;
    uint64_t fault_address, fault_bytes;
    int32_t fault_write;  // of an address: 1 a store, 0 a load, -1 not known
    uint64_t fault_pc;  // of a fault of the processor, or of what a library was called for
    uint64_t fault_callers[4];  // of the module, the innermost first, where the counter is not the program's own
    int32_t fault_line;
    FaultText *told;  // set by the run; of the OS thread that asked for it, until its next run
    uint64_t moved;  // bytes, by the DTE
    uint64_t switches;
    void *scheduler;  // of the run while it goes on
    void *shadow;  // of the launch, where the module is instrumented: what its threads have accessed
    uint32_t fault_where;  // an access that failed, in the shadow's terms
    int32_t apart;  // in a process of its own
    volatile int32_t waits;  // `thread` waits for that process
    uint64_t thread;
    // Where the host chooses which thread goes on: one of those that can, which are numbered through all blocks that are
    // run here. Returns its place.
    int32_t (*choose)(const uint32_t *threads, int32_t count);
};

// ---- what an instrumented launch was seen to do

constexpr int MOST_FRAMES = 6, MOST_RANGES = 16;

struct Where {  // a place of the program: the machine code and its callers, or a file and line
    uint64_t frames[MOST_FRAMES];
    int32_t frame_count;
    const char *file;
    int32_t line;
    const char *what;  // of a transfer
    uint32_t block, phase;  // which block came there first, and how many barriers it had passed
};

enum class Found : int32_t { race, in_flight, one_context, never_waited, unwritten };

constexpr uint8_t WRITES = 1, ATOMIC = 2, TRANSFERS = 4;

struct Finding {
    Found kind;
    Space space;
    uint32_t block;  // of shared and local memory: linear
    uint32_t actors[2], wheres[2];  // threads: linear in the launch
    uint8_t does[2];
    int32_t range_count;
    Range ranges[MOST_RANGES];  // bytes; of shared and local memory, counted from the first of the scratchpad
    uint32_t more;
};

}  // namespace atops
