// What the threads of an instrumented launch have accessed: for each word of memory who stored to it last, and who has
// read it since. Which of two accesses comes first is told by clocks that barriers move.
#pragma once

#include <stdint.h>

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "abi.h"

namespace atops {

// One access, or several of one thread by one line between two barriers, to bytes of one word.
struct Record {
    uint32_t actor, clock, where;
    uint8_t mask, does;  // WRITES, ATOMIC, TRANSFERS
    uint16_t flight;     // of a transfer that nothing has waited for yet; 0: over
};

struct Cell {  // a word of eight bytes
    Record own[2];
    uint32_t more;  // records that found no room, by place; 0: none
    uint8_t read, written, count, spare;
};

constexpr uint64_t WORD = 8;

// What is known of some memory, mapped as it is used. Local memory has no cells: no other thread reaches it, and of each
// word only the bytes that were stored are kept.
class Region {
  public:
    uint64_t low = 0, high = 0;
    Space space = Space::unknown;
    uint32_t owner = 0;  // of local memory the thread, of shared memory the block: linear
    const char *constant = nullptr;  // the name of a variable that kernels only read

    Region() = default;
    Region(uint64_t low, uint64_t high, Space space, uint32_t owner);
    Region(Region &&) noexcept;
    Region &operator=(Region &&) = delete;
    ~Region();
    bool whole() const { return place != nullptr || low == high; }  // else the system has no memory for it
    Cell &cell(uint64_t address) {
        uint64_t word = address / WORD - first;
        touched[word >> 9] = 1;
        return static_cast<Cell *>(place)[word];
    }
    // The bytes of a word that were stored.
    uint8_t &written(uint64_t address) {
        if (space != Space::local) return cell(address).written;
        return static_cast<uint8_t *>(place)[address / WORD - first];
    }
    // The bytes that were read or written, in order.
    void footprint(bool write, std::vector<Range> &out) const;

  private:
    uint64_t bytes() const { return count * (space == Space::local ? 1 : sizeof(Cell)); }

    uint64_t first = 0, count = 0;  // words
    void *place = nullptr;  // of cells, or of bytes
    std::vector<uint8_t> touched;  // for each 512 words whether there is anything
};

struct Constant {
    Range bytes;
    std::string name;
};

// Of a launch: what outlives the runs of its blocks.
struct Shadow {
    std::vector<Constant> constants;  // set before its first run
    std::mutex running;  // blocks of one launch run one after the other
    std::map<uint64_t, Region> global;  // by the first byte
    std::vector<Where> wheres{1};
    std::unordered_map<uint64_t, uint32_t> known;  // places by a digest
    std::vector<Finding> found;
    std::unordered_map<uint64_t, size_t> told;
    std::vector<std::vector<Record>> more{1};
    std::vector<uint32_t> unused;
    std::vector<Range> shown;
    uint64_t accesses = 0, same_value = 0;

    uint32_t place(const Where &, uint64_t digest);
    void tell(const Finding &, Range bytes);
};

}  // namespace atops
