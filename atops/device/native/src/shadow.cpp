// Cells, places of the program, and what was found.
#include "shadow.h"

#include <sys/mman.h>

#include <algorithm>

namespace atops {

namespace {

constexpr uint64_t PAGE = 512;  // words
constexpr size_t MOST_FOUND = 4096;
constexpr uint64_t MOST_LARGE = 256 << 20;  // bytes of a mapping in large pages

}  // namespace

Region::Region(uint64_t low, uint64_t high, Space space, uint32_t owner)
    : low(low), high(high), space(space), owner(owner), first(low / WORD), count((high + WORD - 1) / WORD - low / WORD) {
    if (count == 0) return;
    void *mapped = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return;
    place = mapped;
    // Few large pages are quicker to get and to find than many small ones; where little of very much memory is used, they
    // would take too much.
    if (bytes() <= MOST_LARGE) madvise(mapped, bytes(), MADV_HUGEPAGE);
    touched.resize(count / PAGE + 1);
}

Region::Region(Region &&other) noexcept
    : low(other.low), high(other.high), space(other.space), owner(other.owner), constant(other.constant), first(other.first), count(other.count),
      place(other.place), touched(std::move(other.touched)) {
    other.place = nullptr;
}

Region::~Region() {
    if (place) munmap(place, bytes());
}

void Region::footprint(bool write, std::vector<Range> &out) const {
    if (space == Space::local) return;  // it has a byte a word and no cells, and is no memory that a program shares
    auto *cells = static_cast<const Cell *>(place);
    for (uint64_t page = 0; page * PAGE < count; ++page) {
        if (!touched[page]) continue;
        for (uint64_t word = page * PAGE; word < std::min(count, (page + 1) * PAGE); ++word) {
            unsigned mask = write ? cells[word].written : cells[word].read;
            for (unsigned byte = 0; mask >> byte;) {
                if (!(mask >> byte & 1)) {
                    ++byte;
                    continue;
                }
                unsigned end = mask == 0xFF ? WORD : byte + 1;  // most are used as a whole
                uint64_t low = (first + word) * WORD + byte, high = (first + word) * WORD + end;
                if (!out.empty() && out.back().high == low)
                    out.back().high = high;
                else
                    out.push_back({low, high});
                byte = end;
            }
        }
    }
}

uint32_t Shadow::place(const Where &where, uint64_t digest) {
    auto [found, fresh] = known.try_emplace(digest, static_cast<uint32_t>(wheres.size()));
    if (fresh) wheres.push_back(where);
    return found->second;
}

// Note a finding; what the same two places do is told of once, with all bytes.
void Shadow::tell(const Finding &finding, Range bytes) {
    uint32_t low = std::min(finding.wheres[0], finding.wheres[1]), high = std::max(finding.wheres[0], finding.wheres[1]);
    uint64_t key = (static_cast<uint64_t>(low) << 34) ^ (static_cast<uint64_t>(high) << 4) ^
                   static_cast<uint64_t>(finding.kind);
    auto [known_at, fresh] = told.try_emplace(key, found.size());
    if (fresh) {
        if (found.size() == MOST_FOUND) {
            told.erase(known_at);
            return;
        }
        found.push_back(finding);
        found.back().range_count = 0;
        found.back().more = 0;
    }
    Finding &known_one = found[known_at->second];
    if (known_one.space != finding.space || known_one.block != finding.block) return;
    for (int each = 0; each < known_one.range_count; ++each) {
        Range &range = known_one.ranges[each];
        if (bytes.low <= range.high && range.low <= bytes.high) {
            range = {std::min(range.low, bytes.low), std::max(range.high, bytes.high)};
            return;
        }
    }
    if (known_one.range_count < MOST_RANGES)
        known_one.ranges[known_one.range_count++] = bytes;
    else
        ++known_one.more;
}

}  // namespace atops

using namespace atops;

#pragma GCC visibility push(default)
extern "C" {

void *atops_shadow() { return new Shadow; }

void atops_shadow_free(void *shadow) { delete static_cast<Shadow *>(shadow); }

void atops_shadow_constant(void *shadow, uint64_t low, uint64_t high, const char *name) {
    static_cast<Shadow *>(shadow)->constants.push_back({{low, high}, name});
}

// Have no run change it until it is released; 0 where one goes on, of a launch that was abandoned.
int32_t atops_shadow_hold(void *shadow) { return static_cast<Shadow *>(shadow)->running.try_lock(); }

void atops_shadow_release(void *shadow) { static_cast<Shadow *>(shadow)->running.unlock(); }

int64_t atops_shadow_found(void *shadow, const Finding **found) {
    auto *own = static_cast<Shadow *>(shadow);
    *found = own->found.data();
    return static_cast<int64_t>(own->found.size());
}

void atops_shadow_where(void *shadow, uint32_t number, Where *where) {
    *where = static_cast<Shadow *>(shadow)->wheres[number];
}

void atops_shadow_counts(void *shadow, uint64_t *accesses, uint64_t *same_value) {
    *accesses = static_cast<Shadow *>(shadow)->accesses;
    *same_value = static_cast<Shadow *>(shadow)->same_value;
}

// The bytes of global memory that were read, or written, in order.
int64_t atops_shadow_touched(void *shadow, int32_t write, const Range **ranges) {
    auto *own = static_cast<Shadow *>(shadow);
    own->shown.clear();
    for (const auto &each : own->global) {
        std::vector<Range> part;  // memories side by side stay apart
        each.second.footprint(write != 0, part);
        own->shown.insert(own->shown.end(), part.begin(), part.end());
    }
    *ranges = own->shown.data();
    return static_cast<int64_t>(own->shown.size());
}

}
#pragma GCC visibility pop
