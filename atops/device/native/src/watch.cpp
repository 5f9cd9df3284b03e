// A run of an instrumented module: the compiler has put a call before each load and store (`-fsanitize=thread`), which
// comes here in place of the sanitizer's own library. Each is checked against the memory that the thread may use, and
// against what other threads have done to the same bytes in no order.
#include "watch.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "dte.h"
#include "heap.h"
#include "library.h"
#include "shadow.h"

namespace atops {

namespace {

constexpr uint32_t DEPTH = 64;          // calls whose places are kept
constexpr uint64_t STACK_LEFT = 24 << 10;  // that a call of the kernel must find
constexpr uint64_t QUIET = 64, QUIET_PAGE = 4096;  // pages that are remembered, and bytes of one
constexpr size_t SMALL = 16;            // bytes of one load or store; more is a copy of many

struct Actor {  // a thread of the run
    std::vector<uint32_t> knows;  // of each thread: all that it did until this time comes before what this one does
    std::unique_ptr<Region> local;
    uint32_t depth = 0;
    struct Near {  // what a transfer in flight has of L1, from the first byte to the last
        uint64_t low, high;
        bool write;
        uint16_t flight;
    };
    std::vector<Near> near;
    // Of L1, for some pages: bytes around the last access there that one line declares and no transfer has in flight.
    Range quiet[QUIET] = {};
    uint64_t digest = 0;
    uint64_t callers[DEPTH], digests[DEPTH];
};

struct Flight {  // a transfer between its issue and its wait
    const Context *context;
    const Fiber *fiber;
    uint32_t where;
    uint16_t number;
    struct Part {
        uint64_t low, high;
        bool write;
    };
    std::vector<Part> parts;
};

struct Kept {  // a context that was initialised, until it is destroyed
    const Context *context;
    const Fiber *fiber;
    Site site;
    bool shared;
};

struct Doubt {  // stores of two threads to the same bytes, until it is known whether they store the same
    Finding finding;
    uint64_t address, before;
    uint8_t mask;
};

}  // namespace

struct Watch {
    Scheduler *own;
    Run *run;
    Shadow *shadow;
    std::unique_lock<std::mutex> turn;
    std::vector<Actor> actors;
    std::vector<std::unique_ptr<Region>> shared;  // of each block
    std::vector<uint32_t> phases;                 // how many barriers each block has passed
    uint32_t base = 0;                            // the number of the first thread in the launch
    Region *last = nullptr;                       // of global memory, that was last used
    uint64_t module_low = 0, module_high = 0, slots_low = 0, slots_high = 0;
    std::vector<Flight> flights;
    uint16_t next_flight = 0;
    std::vector<Doubt> doubts;
    std::vector<Kept> kept;
    std::vector<Range> library_heap;  // what the kernel has used of the C++ library's memory
    std::unordered_map<const void *, std::vector<uint32_t>> released, open;  // what threads knew who let others go on
    std::unordered_map<const Context *, Record> users;
    std::vector<Flight::Part> parts;  // of the transfer at hand
    struct {
        uint64_t key;
        uint32_t number;
    } recent[1024] = {};
};

namespace {

uint32_t number_of(const Watch *watch, const Fiber *fiber) { return fiber->block * watch->own->size + fiber->thread; }

uint64_t mixed(uint64_t one, uint64_t other) { return (one ^ other * 0x9E3779B97F4A7C15u) * 0xD6E8FEB86659FD93u + (one >> 29); }

// ---- places of the program

// Note that a thread has come to a place; only of the first is it kept.
void reached(const Watch *watch, uint32_t number, Where &where) {
    uint32_t block = number / watch->own->size;
    where.block = watch->base / watch->own->size + block;
    where.phase = watch->phases[block];
}

uint32_t place_of(Watch *watch, const Actor &actor, uint64_t counter) {
    uint64_t key = mixed(actor.digest, counter);
    auto &slot = watch->recent[key >> 20 & 1023];
    if (slot.key == key) return slot.number;
    Where where{};
    where.frames[where.frame_count++] = counter - 1;
    for (uint32_t depth = std::min(actor.depth, DEPTH); depth > 0 && where.frame_count < MOST_FRAMES;)
        where.frames[where.frame_count++] = actor.callers[--depth] - 1;
    reached(watch, static_cast<uint32_t>(&actor - watch->actors.data()), where);
    slot.key = key;
    return slot.number = watch->shadow->place(where, key);
}

uint32_t place_of(Watch *watch, uint32_t number, Site site, const char *what) {
    uint64_t key = mixed(mixed(reinterpret_cast<uint64_t>(site.file), static_cast<uint64_t>(site.line)),
                         reinterpret_cast<uint64_t>(what));
    Where where{};
    where.file = site.file;
    where.line = site.line;
    where.what = what;
    reached(watch, number, where);
    return watch->shadow->place(where, key);
}

// What is being done, by whom; its place is looked up where it is needed.
struct Touch {
    Watch *watch;
    Fiber *fiber;
    Actor *actor;
    uint32_t number;
    uint8_t does;
    uint16_t flight, landed;  // of a transfer: its number while it is issued, and when it is over
    bool small;
    uint64_t counter;
    uint32_t found_where;

    uint32_t where() { return found_where ? found_where : found_where = place_of(watch, *actor, counter); }
};

// ---- bounds

[[noreturn]] void refuse(Touch &touch, uint64_t low, uint64_t high, const char *text) {
    Run *run = touch.watch->run;
    run->fault_address = low;
    run->fault_bytes = high - low;
    run->fault_write = touch.does & WRITES;
    run->fault_where = touch.where();
    fail_now(Fault::illegal_address, text);
}

const char *verb(const Touch &touch) { return touch.does & WRITES ? "stores" : "reads"; }

[[noreturn]] void beyond(Touch &touch, uint64_t low, uint64_t high, const char *kind, const Pad &pad, const Place *places,
                         size_t count, uint64_t dynamic) {
    const Place *near = nullptr;
    auto distance = [&](const Place &each) {
        uint64_t base = reinterpret_cast<uint64_t>(each.bytes);
        return low >= base ? low - base : (base - low) * 4;  // behind is likelier than before
    };
    Place whole{nullptr, pad.bytes, dynamic, {nullptr, 0}};
    if (dynamic) near = &whole;
    for (size_t each = 0; each < count; ++each)
        if (!near || distance(places[each]) < distance(*near)) near = places + each;
    char text[512], object[256];
    if (!near) {
        snprintf(text, sizeof text, "%s %llu bytes of %s memory, of which nothing is declared", verb(touch),
                 static_cast<unsigned long long>(high - low), kind);
        refuse(touch, low, high, text);
    }
    if (near == &whole)
        snprintf(object, sizeof object, "the %llu bytes of dynamic shared memory", static_cast<unsigned long long>(dynamic));
    else
        snprintf(object, sizeof object, "the %llu bytes of %s memory declared at %s:%d",
                 static_cast<unsigned long long>(near->size), kind, near->site.file, near->site.line);
    uint64_t base = reinterpret_cast<uint64_t>(near->bytes);
    bool ahead = low < base;
    snprintf(text, sizeof text, "%s %llu bytes, %llu %s %s, at offset %lld", verb(touch),
             static_cast<unsigned long long>(high - low),
             static_cast<unsigned long long>(ahead ? base - low : high - base - near->size),
             ahead ? "before the beginning of" : "past the end of", object, static_cast<long long>(low - base));
    refuse(touch, low, high, text);
}

bool within(const Place &place, uint64_t low, uint64_t high) {
    uint64_t base = reinterpret_cast<uint64_t>(place.bytes);
    return low >= base && high <= base + place.size;
}

bool begins_in(const Pad &pad, uint64_t low) {
    uint64_t base = reinterpret_cast<uint64_t>(pad.bytes);
    return base && low >= base && low < base + pad.capacity;
}

bool on_stack(const Fiber *fiber, uint64_t low) {
    return low >= reinterpret_cast<uint64_t>(fiber->stack) && low < reinterpret_cast<uint64_t>(fiber->top);
}

// Whether bytes are the module's, or of the table of what the runtime does for it.
bool of_module(const Watch *watch, uint64_t low, uint64_t high) {
    auto table = reinterpret_cast<uint64_t>(RUNTIME_TABLE);
    return (low >= watch->slots_low && high <= watch->slots_high) || (low >= watch->module_low && high <= watch->module_high) ||
           (low >= table && high <= table + sizeof *RUNTIME_TABLE);
}

// Whether bytes are of host code: the module's, but what the program has registered of them.
bool of_host_code(const Watch *watch, uint64_t low, uint64_t high) {
    Range range;
    return of_module(watch, low, high) && !find_named(watch->run, low, &range);
}

// Whether no other thread reaches what lies here.
bool own_memory(const Watch *watch, const Fiber *fiber, uint64_t low, uint64_t high) {
    return begins_in(*fiber->l1, low) || on_stack(fiber, low) || of_host_code(watch, low, high);
}

Region *made(std::unique_ptr<Region> &region, const Pad &pad, Space space, uint32_t owner) {
    if (!region) {
        uint64_t base = reinterpret_cast<uint64_t>(pad.bytes);
        region = std::make_unique<Region>(base, base + pad.capacity, space, owner);
        if (!region->whole()) fail_now(Fault::out_of_resources, "the host has no memory to watch accesses");
    }
    return region.get();
}

// Whether bytes are of the C++ library's own data, or of the memory that it has of this process: no file lies behind that,
// and no other process has it.
bool of_library_heap(Watch *watch, uint64_t low, uint64_t high) {
    if (!watch->run->library_heap) return false;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) return false;
    char line[512], access[8], name[256];
    bool found = false;
    while (!found && fgets(line, sizeof line, maps)) {
        unsigned long from, to, inode;
        name[0] = 0;
        if (sscanf(line, "%lx-%lx %7s %*x %*s %lu %255s", &from, &to, access, &inode, name) < 4) continue;
        bool heap = strcmp(access, "rw-p") == 0 && (!name[0] || strcmp(name, "[heap]") == 0);
        found = low >= from && high <= to && (heap || strstr(name, "/libstdc++.so"));
        if (found) watch->library_heap.push_back({from, to});
    }
    fclose(maps);
    return found;
}

// End the run for memory of others; come back where it is of the C++ library.
void refuse_others(Touch &touch, uint64_t low, uint64_t high) {
    Watch *watch = touch.watch;
    Run *run = watch->run;
    char text[256];
    const char *what = nullptr;
    const Fiber *of = nullptr;
    for (const Fiber *each : watch->own->fibers) {
        const BlockPlace &place = run->places[each->block];
        if (begins_in(*each->l1, low)) what = "local memory", of = each;
        if (begins_in(place.l2, low)) what = "shared memory of the block", of = each;
        if (on_stack(each, low)) what = "a variable on the stack", of = each;
        if (what) break;
    }
    if (low >> 47) refuse(touch, low, high, "used an address that no memory can have");
    if (is_no_shared(low)) {
        snprintf(text, sizeof text, "%s %llu bytes of %s", verb(touch), static_cast<unsigned long long>(high - low), NO_SHARED);
        refuse(touch, low, high, text);
    }
    if (!what && of_library_heap(watch, low, high)) return;
    if (!what) refuse(touch, low, high, low < 4096 ? "address" : "access");
    const Dim &thread = of->index, &block = run->places[of->block].index;
    snprintf(text, sizeof text, "%s %llu bytes of what another thread has: %s of thread (%u,%u,%u) of block (%u,%u,%u)",
             verb(touch), static_cast<unsigned long long>(high - low), what, thread.x, thread.y, thread.z, block.x, block.y,
             block.z);
    refuse(touch, low, high, text);
}

Range &quiet_at(Actor &actor, uint64_t low) { return actor.quiet[low / QUIET_PAGE % QUIET]; }

void forget_quiet(Actor &actor) { std::fill(std::begin(actor.quiet), std::end(actor.quiet), Range{}); }

void remember_quiet(Actor &actor, const Place &place, uint64_t low, uint64_t high) {
    Range quiet{reinterpret_cast<uint64_t>(place.bytes), reinterpret_cast<uint64_t>(place.bytes) + place.size};
    for (const Actor::Near &each : actor.near) {
        if (low < each.high && each.low < high) return;
        if (each.high <= low)
            quiet.low = std::max(quiet.low, each.high);
        else
            quiet.high = std::min(quiet.high, each.low);
    }
    quiet_at(actor, low) = quiet;
}

// Return the memory that bytes are in, or end the run; nullptr for memory that is not watched.
Region *region_of(Touch &touch, uint64_t low, uint64_t high) {
    Watch *watch = touch.watch;
    Fiber *fiber = touch.fiber;
    Run *run = watch->run;
    const BlockPlace &place = run->places[fiber->block];
    const Pad &l1 = *fiber->l1;
    if (begins_in(l1, low)) {
        Actor &actor = *touch.actor;
        uint32_t each = 0;
        while (each < fiber->place_count && !within(fiber->places[each], low, high)) ++each;
        if (each == fiber->place_count) beyond(touch, low, high, "local", l1, fiber->places, fiber->place_count, 0);
        remember_quiet(actor, fiber->places[each], low, high);
        return made(actor.local, l1, Space::local, watch->base + touch.number);
    }
    if (begins_in(place.l2, low)) {
        const auto &places = watch->own->blocks[fiber->block].places;
        uint64_t base = reinterpret_cast<uint64_t>(place.l2.bytes), dynamic = run->dynamic_shared;
        bool known = high <= base + dynamic;
        for (size_t each = 0; !known && each < places.size(); ++each) known = within(places[each], low, high);
        if (!known) beyond(touch, low, high, "shared", place.l2, places.data(), places.size(), dynamic);
        return made(watch->shared[fiber->block], place.l2, Space::shared, watch->base / watch->own->size + fiber->block);
    }
    bool stores = touch.does & WRITES;
    if (watch->last && low >= watch->last->low && high <= watch->last->high && !(stores && watch->last->constant))
        return watch->last;
    char text[512];
    if (on_stack(fiber, low)) return nullptr;
    Range range;
    if (of_host_code(watch, low, high)) {
        if (!stores || initialises_static(fiber)) return nullptr;
        snprintf(text, sizeof text, "stores %llu bytes of a variable of host code, which no kernel has: declare it "
                 "__device__, or pass it as an argument", static_cast<unsigned long long>(high - low));
        refuse(touch, low, high, text);
    }
    if (heap_has(low, high, text, sizeof text)) {
        if (text[0]) refuse(touch, low, high, text);
        return nullptr;
    }
    for (const Range &each : watch->library_heap)
        if (low >= each.low && high <= each.high) return nullptr;
    if (!find_global(run, low, &range)) return refuse_others(touch, low, high), nullptr;
    if (high > range.high) refuse(touch, low, high, "access");
    auto found = watch->shadow->global.find(range.low);
    if (found == watch->shadow->global.end()) {
        found = watch->shadow->global.try_emplace(range.low, Region(range.low, range.high, Space::global, 0)).first;
        if (!found->second.whole()) fail_now(Fault::out_of_resources, "the host has no memory to watch accesses");
        for (const Constant &each : watch->shadow->constants)
            if (each.bytes.low == range.low) found->second.constant = each.name.c_str();
    }
    if (stores && found->second.constant) {
        snprintf(text, sizeof text, "stores %llu bytes of the constant %s, which kernels only read (TOPS C++, 8.2)",
                 static_cast<unsigned long long>(high - low), found->second.constant);
        refuse(touch, low, high, text);
    }
    return watch->last = &found->second;
}

// ---- order

bool before(const Watch *watch, const Record &record, const Actor &actor) {
    uint32_t number = record.actor - watch->base;
    return number < actor.knows.size() && record.clock <= actor.knows[number];
}

void join(std::vector<uint32_t> &into, const std::vector<uint32_t> &from) {
    if (into.size() < from.size()) into.resize(from.size());
    for (size_t each = 0; each < from.size(); ++each) into[each] = std::max(into[each], from[each]);
}

void meet(Watch *watch, size_t first, size_t count) {
    std::vector<uint32_t> all;
    for (size_t each = first; each < first + count; ++each) join(all, watch->actors[each].knows);
    for (size_t each = first; each < first + count; ++each) {
        watch->actors[each].knows = all;
        ++watch->actors[each].knows[each];
    }
}

// ---- accesses

void settle(Watch *watch) {
    for (const Doubt &each : watch->doubts) {
        uint64_t now;
        memcpy(&now, reinterpret_cast<const void *>(each.address), WORD);
        bool same = true;
        for (unsigned byte = 0; byte < WORD; ++byte)
            if (each.mask >> byte & 1) same = same && (now >> 8 * byte & 255) == (each.before >> 8 * byte & 255);
        if (same)
            ++watch->shadow->same_value;
        else
            watch->shadow->tell(each.finding, each.finding.ranges[0]);
    }
    watch->doubts.clear();
}

Finding finding_of(Touch &touch, const Region &region, const Record &earlier, Range bytes) {
    Finding finding{};
    finding.kind = earlier.flight ? Found::in_flight : Found::race;
    finding.space = region.space;
    finding.block = region.owner;
    finding.actors[0] = earlier.actor, finding.actors[1] = touch.watch->base + touch.number;
    finding.wheres[0] = earlier.where, finding.wheres[1] = touch.where();
    finding.does[0] = earlier.does, finding.does[1] = touch.does;
    finding.ranges[0] = bytes;
    if (region.space != Space::global) finding.ranges[0].low -= region.low, finding.ranges[0].high -= region.low;
    return finding;
}

void clash(Touch &touch, const Region &region, const Record &earlier, uint64_t address, uint8_t mask) {
    unsigned low = static_cast<unsigned>(__builtin_ctz(mask)), high = 32 - static_cast<unsigned>(__builtin_clz(mask));
    Finding finding = finding_of(touch, region, earlier, {address + low, address + high});
    constexpr uint8_t ONE_MOMENT = TRANSFERS | ATOMIC;
    if (touch.small && earlier.does & touch.does & WRITES && !((earlier.does | touch.does) & ONE_MOMENT)) {
        Doubt doubt{finding, address, 0, mask};
        memcpy(&doubt.before, reinterpret_cast<const void *>(address), WORD);
        touch.watch->doubts.push_back(doubt);
    } else {
        touch.watch->shadow->tell(finding, finding.ranges[0]);
    }
}

std::vector<Record> *others_of(Shadow *shadow, Cell &cell) { return cell.more ? &shadow->more[cell.more] : nullptr; }

void forget(Shadow *shadow, Cell &cell) {
    cell.count = 0;
    if (!cell.more) return;
    shadow->more[cell.more].clear();
    shadow->unused.push_back(cell.more);
    cell.more = 0;
}

void append(Shadow *shadow, Cell &cell, const Record &record) {
    if (cell.count < 2) {
        cell.own[cell.count++] = record;
        return;
    }
    if (!cell.more) {
        if (shadow->unused.empty()) {
            cell.more = static_cast<uint32_t>(shadow->more.size());
            shadow->more.emplace_back();
        } else {
            cell.more = shadow->unused.back();
            shadow->unused.pop_back();
        }
    }
    shadow->more[cell.more].push_back(record);
}

// Compare an access with what is known of a word, and enter it.
void enter_word(Touch &touch, const Region &region, Cell &cell, uint64_t address, uint8_t mask) {
    Watch *watch = touch.watch;
    Shadow *shadow = watch->shadow;
    const Actor &actor = *touch.actor;
    Record mine{watch->base + touch.number, actor.knows[touch.number], 0, mask, touch.does, touch.flight};
    if (cell.count <= 1 && !cell.more) {  // most: nothing is known of it, or what this one replaces
        Record &only = cell.own[0];
        bool replaced = cell.count == 0 || (only.mask == mask && only.actor == mine.actor &&
                                            (!only.flight || only.flight == touch.landed) &&
                                            (mine.does & WRITES || !(only.does & WRITES)));
        if (replaced && cell.count && only.clock == mine.clock && only.does == mine.does && !only.flight && !mine.flight)
            return;
        if (replaced) {
            mine.where = touch.where();
            only = mine;
            cell.count = 1;
            return;
        }
    }
    uint8_t foreign = 0;  // bytes of which a read by a block that is over is known: one is enough
    bool known = false;
    auto look = [&](Record &each) {
        if (each.flight && each.flight == touch.landed) each.mask = 0;
        uint8_t common = each.mask & mask;
        if (!common) return;
        bool own = each.actor == mine.actor && !each.flight;
        if (own && each.clock == mine.clock && each.does == mine.does && !mine.flight && common == mask) {
            known = true;
            return;
        }
        bool ordered = own || (!each.flight && before(watch, each, actor)) || (each.flight && each.flight == mine.flight);
        bool conflict = !ordered && (each.does | mine.does) & WRITES && !(each.does & mine.does & ATOMIC);
        if (conflict) clash(touch, region, each, address, common);
        if (!each.flight && (ordered || conflict) && (mine.does & WRITES || !(each.does & WRITES)))
            each.mask = static_cast<uint8_t>(each.mask & ~common);
        if (!(each.does & WRITES) && each.actor - watch->base >= actor.knows.size()) {
            each.mask = static_cast<uint8_t>(each.mask & ~foreign);
            foreign |= each.mask;
        }
    };
    uint8_t kept = 0;
    for (uint8_t each = 0; each < cell.count; ++each) {
        look(cell.own[each]);
        if (cell.own[each].mask) cell.own[kept++] = cell.own[each];
    }
    cell.count = kept;
    if (std::vector<Record> *more = others_of(shadow, cell)) {
        for (Record &each : *more) look(each);
        more->erase(std::remove_if(more->begin(), more->end(), [](const Record &each) { return !each.mask; }), more->end());
        while (cell.count < 2 && !more->empty()) {
            cell.own[cell.count++] = more->back();
            more->pop_back();
        }
        if (more->empty()) {
            shadow->unused.push_back(cell.more);
            cell.more = 0;
        }
    }
    if (known) return;
    mine.where = touch.where();
    for (uint8_t each = 0; each < cell.count; ++each) {
        Record &other = cell.own[each];
        if (other.actor == mine.actor && other.clock == mine.clock && other.where == mine.where &&
            other.does == mine.does && other.flight == mine.flight) {
            other.mask |= mask;
            return;
        }
    }
    append(shadow, cell, mine);
}

void tell_unwritten(Touch &touch, Region &region, uint64_t low, uint64_t high) {
    Watch *watch = touch.watch;
    const Fiber *fiber = touch.fiber;
    Site site{"", 0};
    if (region.space == Space::local) {
        for (uint32_t each = 0; each < fiber->place_count; ++each)
            if (within(fiber->places[each], low, low + 1)) site = fiber->places[each].site;
    } else {
        for (const Place &each : watch->own->blocks[fiber->block].places)
            if (within(each, low, low + 1)) site = each.site;
    }
    Finding finding{};
    finding.kind = Found::unwritten;
    finding.space = region.space;
    finding.block = region.owner;
    finding.actors[0] = finding.actors[1] = watch->base + touch.number;
    finding.wheres[0] = place_of(watch, touch.number, site, nullptr);
    finding.wheres[1] = touch.where();
    finding.does[1] = touch.does;
    watch->shadow->tell(finding, {low - region.low, high - region.low});
}

uint8_t mask_of(uint64_t word, uint64_t low, uint64_t high) {
    unsigned from = low > word ? static_cast<unsigned>(low - word) : 0;
    unsigned to = high < word + WORD ? static_cast<unsigned>(high - word) : WORD;
    return static_cast<uint8_t>((0xFFu << from) & (0xFFu >> (WORD - to)));
}

// Look whether a load finds what nothing has stored. A copy of an object takes its padding along: of a load one byte that
// was stored is enough. Of a transfer each byte counts.
void look_at_written(Touch &touch, Region &region, uint64_t low, uint64_t high) {
    bool each_counts = touch.does & TRANSFERS;
    uint64_t from = 0, to = 0;
    for (uint64_t word = low & ~(WORD - 1); word < high; word += WORD) {
        uint8_t mask = mask_of(word, low, high), missing = static_cast<uint8_t>(mask & ~region.written(word));
        if (missing != mask && !each_counts) return;
        if (!missing) continue;
        uint64_t first = word + static_cast<unsigned>(__builtin_ctz(missing));
        if (to && first != to) {
            tell_unwritten(touch, region, from, to);
            to = 0;
        }
        if (!to) from = first;
        to = word + 32 - static_cast<unsigned>(__builtin_clz(missing));
    }
    if (!to) return;
    tell_unwritten(touch, region, from, to);
    for (uint64_t word = low & ~(WORD - 1); word < high; word += WORD)
        region.written(word) |= mask_of(word, low, high);  // told of once
}

// L1 is one thread's: there only its transfers in flight matter.
void look_at_flights(Touch &touch, const Region &region, uint64_t low, uint64_t high) {
    Watch *watch = touch.watch;
    for (const Actor::Near &each : touch.actor->near) {
        bool meets = low < each.high && each.low < high && (touch.does & WRITES || each.write);
        if (!meets || each.flight == touch.flight) continue;
        for (const Flight &flight : watch->flights) {
            if (flight.number != each.flight) continue;
            uint8_t does = each.write ? WRITES | TRANSFERS : TRANSFERS;
            Record earlier{watch->base + touch.number, 0, flight.where, 0, does, flight.number};
            for (const Flight::Part &part : flight.parts) {
                Range bytes{std::max(low, part.low), std::min(high, part.high)};
                if (part.write != each.write || bytes.low >= bytes.high) continue;
                Finding finding = finding_of(touch, region, earlier, bytes);
                watch->shadow->tell(finding, finding.ranges[0]);
            }
        }
    }
}

void enter(Touch &touch, uint64_t low, uint64_t high) {
    if (low >= high) return;
    Region *region = region_of(touch, low, high);
    if (!region) return;
    bool write = touch.does & WRITES;
    uint64_t word = low & ~(WORD - 1);
    if (region->space == Space::local) {
        if (!touch.actor->near.empty() && !touch.landed) look_at_flights(touch, *region, low, high);
        if (!write) return look_at_written(touch, *region, low, high);
        for (; word < high; word += WORD) region->written(word) |= mask_of(word, low, high);
        return;
    }
    if (region->space == Space::shared && !write) look_at_written(touch, *region, low, high);
    for (; word < high; word += WORD) {
        Cell &cell = region->cell(word);
        uint8_t mask = mask_of(word, low, high);
        if (write)
            cell.written |= mask;
        else
            cell.read |= mask;
        enter_word(touch, *region, cell, word, mask);
    }
}

// Enter an access to L1 where there is nothing to look at but whether a load finds what was stored. Most are of this kind.
bool enter_quiet(Actor &actor, uint64_t low, uint64_t high, bool write) {
    const Range &quiet = quiet_at(actor, low);
    uint64_t word = low & ~(WORD - 1);
    if (low < quiet.low || high > quiet.high || high > word + WORD) return false;
    uint8_t &written = actor.local->written(low);
    uint8_t mask = mask_of(word, low, high);
    if (!write) return (mask & ~written) == 0;
    written |= mask;
    return true;
}

Touch touch_of(Watch *watch, const Fiber *fiber, uint8_t does, Site site, const char *what) {
    uint32_t number = number_of(watch, fiber);
    Touch made{watch, const_cast<Fiber *>(fiber), &watch->actors[number], number, does, 0, 0, false, 0, 0};
    made.found_where = place_of(watch, number, site, what);
    return made;
}

void take_parts(Watch *watch, const Transfer &given) {
    watch->parts.clear();
    auto take = [](void *self, uintptr_t address, size_t bytes, bool write) {
        if (bytes) static_cast<Watch *>(self)->parts.push_back({address, address + bytes, write});
    };
    observe_transfer(given, {take, watch});
}

void enter_parts(Touch &touch, const std::vector<Flight::Part> &parts) {
    for (bool write : {false, true}) {  // all that it reads comes before what it writes
        touch.does = write ? WRITES | TRANSFERS : TRANSFERS;
        for (const Flight::Part &each : parts)
            if (each.write == write) enter(touch, each.low, each.high);
    }
}

int take_segments(dl_phdr_info *info, size_t, void *given) {
    auto *watch = static_cast<Watch *>(given);
    auto inside = reinterpret_cast<uint64_t>(watch->run->module);
    uint64_t low = ~uint64_t(0), high = 0;
    for (int each = 0; each < info->dlpi_phnum; ++each) {
        const auto &header = info->dlpi_phdr[each];
        if (header.p_type != PT_LOAD) continue;
        low = std::min<uint64_t>(low, info->dlpi_addr + header.p_vaddr);
        high = std::max<uint64_t>(high, info->dlpi_addr + header.p_vaddr + header.p_memsz);
    }
    if (inside < low || inside >= high) return 0;
    watch->module_low = low;
    watch->module_high = high;
    return 1;
}

}  // namespace

// ---- what the kernel's code tells

void watch_access(Watch *watch, uint64_t low, uint64_t bytes, uint8_t does, uint64_t counter) {
    Fiber *fiber = watch->own->current;
    if (!watch->doubts.empty()) settle(watch);
    if (watch->run->stop) fail_now(Fault::stopped, "");
    ++watch->shadow->accesses;
    uint32_t number = number_of(watch, fiber);
    Actor &actor = watch->actors[number];
    if (enter_quiet(actor, low, low + bytes, does & WRITES)) return;
    if (!own_memory(watch, fiber, low, low + bytes)) {
        turn_before_access(watch->own, (does & WRITES) && !(does & ATOMIC));
        if (watch->run->stop) fail_now(Fault::stopped, "");
    }
    Touch touch{watch, fiber, &actor, number, does, 0, 0, bytes <= SMALL, counter, 0};
    enter(touch, low, low + bytes);
}

void watch_call(Watch *watch, uint64_t counter) {
    const Fiber *fiber = watch->own->current;
    if (static_cast<uint8_t *>(__builtin_frame_address(0)) < fiber->stack + STACK_LEFT) {
        char text[96];
        snprintf(text, sizeof text, "its stack of %zu KiB overflowed; __local__ puts an array into L1", STACK_BYTES >> 10);
        fail_now(Fault::launch_failure, text);
    }
    if (watch->run->stop) fail_now(Fault::stopped, "");
    Actor &actor = watch->actors[number_of(watch, fiber)];
    if (actor.depth < DEPTH) {
        actor.callers[actor.depth] = counter;
        actor.digests[actor.depth] = actor.digest;
        actor.digest = mixed(actor.digest, counter);
    }
    ++actor.depth;
}

void watch_return(Watch *watch) {
    Actor &actor = watch->actors[number_of(watch, watch->own->current)];
    if (actor.depth && --actor.depth < DEPTH) actor.digest = actor.digests[actor.depth];
}

// ---- what a run tells

Watch *begin_watch(Scheduler *own) {
    if (!own->run->shadow) return nullptr;
    auto *watch = new Watch;
    watch->own = own;
    watch->run = own->run;
    watch->shadow = static_cast<Shadow *>(own->run->shadow);
    watch->turn = std::unique_lock<std::mutex>(watch->shadow->running);
    const Run *run = own->run;
    size_t total = own->size * static_cast<size_t>(run->blocks);
    watch->actors.resize(total);
    watch->phases.resize(run->blocks);
    for (size_t each = 0; each < total; ++each) {
        watch->actors[each].knows.resize(total);
        watch->actors[each].knows[each] = 1;
    }
    watch->shared.resize(static_cast<size_t>(run->blocks));
    const Dim &first = run->places[0].index;
    watch->base = ((first.z * run->grid.y + first.y) * run->grid.x + first.x) * own->size;
    dl_iterate_phdr(take_segments, watch);
    watch->slots_low = ~uint64_t(0);
    for (const Dim *each : {own->slots.thread_index, own->slots.block_index, own->slots.block_extent, own->slots.grid_extent}) {
        watch->slots_low = std::min(watch->slots_low, reinterpret_cast<uint64_t>(each));
        watch->slots_high = std::max(watch->slots_high, reinterpret_cast<uint64_t>(each + 1));
    }
    return watch;
}

void end_watch(Watch *watch) {
    settle(watch);
    delete watch;
}

void watch_thread_over(Watch *watch, const Fiber *fiber) {
    settle(watch);
    for (const Flight &each : watch->flights) {
        if (each.fiber != fiber) continue;
        Finding finding{};
        finding.kind = Found::never_waited;
        finding.actors[0] = finding.actors[1] = watch->base + number_of(watch, fiber);
        finding.wheres[0] = finding.wheres[1] = each.where;
        finding.does[0] = finding.does[1] = TRANSFERS;
        watch->shadow->tell(finding, {0, 0});
    }
}

void watch_block_barrier(Watch *watch, uint32_t block) {
    settle(watch);
    ++watch->phases[block];
    meet(watch, block * static_cast<size_t>(watch->own->size), watch->own->size);
}

void watch_grid_barrier(Watch *watch) {
    settle(watch);
    for (uint32_t &each : watch->phases) ++each;
    meet(watch, 0, watch->actors.size());
}

void watch_release(Watch *watch, const Fiber *fiber, const void *what) {
    settle(watch);
    uint32_t number = number_of(watch, fiber);
    Actor &actor = watch->actors[number];
    join(watch->open[what], actor.knows);
    ++actor.knows[number];
}

void watch_phase(Watch *watch, const void *what) { join(watch->released[what], watch->open[what]); }

void watch_acquire(Watch *watch, const Fiber *fiber, const void *what) {
    if (auto found = watch->released.find(what); found != watch->released.end())
        join(watch->actors[number_of(watch, fiber)].knows, found->second);
}

// All threads of the block come behind the constructors, whichever of them has called them.
void watch_constructed(Watch *watch, void *place, size_t bytes) {
    settle(watch);
    Region *region = watch->shared[watch->own->current->block].get();
    uint64_t low = reinterpret_cast<uint64_t>(place);
    if (!region || low < region->low || low + bytes > region->high) return;
    for (uint64_t word = low & ~(WORD - 1); word < low + bytes; word += WORD) forget(watch->shadow, region->cell(word));
}

void watch_init(Watch *watch, const Fiber *fiber, const Context *context) {
    watch->kept.push_back({context, fiber, context->declared, context->shared != 0});
}

void watch_init_again(Watch *watch, const Context *context, Site site) {
    if (!watch->run->strict) return;
    for (const Kept &each : watch->kept)
        if (each.context == context) {
            char text[400];
            snprintf(text, sizeof text, "init of a %s DTE context a second time; the first was at %s:%d, destroy() it before",
                     each.shared ? "shared" : "private", each.site.file, each.site.line);
            RUNTIME_TABLE->fail(Fault::dte_error, text, site);
        }
}

void watch_destroy(Watch *watch, const Context *context) {
    auto is_it = [&](const Kept &each) { return each.context == context; };
    auto is_copied = [&](const Kept &each) { return each.fiber == context->owner && each.site.line == context->declared.line; };
    auto found = std::find_if(watch->kept.rbegin(), watch->kept.rend(), is_it);
    if (found == watch->kept.rend()) found = std::find_if(watch->kept.rbegin(), watch->kept.rend(), is_copied);
    if (found != watch->kept.rend()) watch->kept.erase(std::next(found).base());
}

void watch_block_over(Watch *watch, uint32_t block) {
    if (!watch->run->strict || !watch->shadow->found.empty()) return;  // a race is told first
    const Kept *first = nullptr;
    size_t count = 0;
    for (const Kept &each : watch->kept) {
        if (each.fiber->block != block) continue;
        if (!first) first = &each;
        ++count;
    }
    if (!first) return;
    char text[160], more[40] = "";
    if (count > 1) snprintf(more, sizeof more, " (nor were %zu more of its block)", count - 1);
    snprintf(text, sizeof text, "%s DTE context that it initialised here was never destroyed%s; call destroy(), or use dte_scope",
             first->shared ? "a shared" : "a private", more);
    watch->own->current = const_cast<Fiber *>(first->fiber);  // whose fault it is
    RUNTIME_TABLE->fail(Fault::dte_error, text, first->site);
}

void watch_context(Watch *watch, const Fiber *fiber, const Context *context, const char *what, Site site) {
    settle(watch);
    if (!context->shared) return;
    Touch touch = touch_of(watch, fiber, TRANSFERS, site, what);
    Record mine{watch->base + touch.number, touch.actor->knows[touch.number], touch.where(), 0, TRANSFERS, 0};
    auto [found, fresh] = watch->users.try_emplace(context, mine);
    const Record last = found->second;
    found->second = mine;
    if (fresh || last.actor == mine.actor || before(watch, last, *touch.actor)) return;
    Finding finding{};
    finding.kind = Found::one_context;
    finding.actors[0] = last.actor, finding.actors[1] = mine.actor;
    finding.wheres[0] = last.where, finding.wheres[1] = mine.where;
    finding.does[0] = finding.does[1] = TRANSFERS;
    watch->shadow->tell(finding, {0, 0});
}

void watch_transfer(Watch *watch, const Fiber *fiber, const Transfer &given, Site site) {
    settle(watch);
    ++watch->shadow->accesses;
    Touch touch = touch_of(watch, fiber, TRANSFERS, site, given.name);
    take_parts(watch, given);
    enter_parts(touch, watch->parts);
}

void watch_issue(Watch *watch, const Fiber *fiber, const Context *context, Site site) {
    settle(watch);
    ++watch->shadow->accesses;
    Touch touch = touch_of(watch, fiber, TRANSFERS, site, context->transfer.name);
    take_parts(watch, context->transfer);
    do
        touch.flight = ++watch->next_flight;
    while (!touch.flight || std::any_of(watch->flights.begin(), watch->flights.end(),
                                        [&](const Flight &each) { return each.number == touch.flight; }));
    watch->flights.push_back({context, fiber, touch.where(), touch.flight, watch->parts});
    enter_parts(touch, watch->flights.back().parts);
    const Pad &l1 = *fiber->l1;
    for (bool write : {false, true}) {
        Actor::Near near{~uint64_t(0), 0, write, touch.flight};
        for (const Flight::Part &each : watch->parts)
            if (each.write == write && begins_in(l1, each.low))
                near.low = std::min(near.low, each.low), near.high = std::max(near.high, each.high);
        if (near.high) touch.actor->near.push_back(near);
    }
    forget_quiet(*touch.actor);
}

void watch_wait(Watch *watch, const Fiber *fiber, const Context *context) {
    settle(watch);
    auto found = std::find_if(watch->flights.begin(), watch->flights.end(),
                              [&](const Flight &each) { return each.context == context; });
    if (found == watch->flights.end()) return;
    Flight flight = std::move(*found);
    watch->flights.erase(found);
    Touch touch = touch_of(watch, flight.fiber, TRANSFERS, context->issued, context->transfer.name);
    Touch waiter = touch_of(watch, fiber, TRANSFERS, context->issued, context->transfer.name);
    std::vector<Actor::Near> &near = touch.actor->near;
    near.erase(std::remove_if(near.begin(), near.end(), [&](const auto &each) { return each.flight == flight.number; }),
               near.end());
    forget_quiet(*touch.actor);
    touch.landed = waiter.landed = flight.number;
    const Pad &l1 = *flight.fiber->l1;
    for (bool write : {false, true})
        for (const Flight::Part &each : flight.parts) {
            if (each.write != write) continue;
            Touch &mine = begins_in(l1, each.low) || on_stack(flight.fiber, each.low) ? touch : waiter;
            mine.does = write ? WRITES | TRANSFERS : TRANSFERS;
            enter(mine, each.low, each.high);
        }
}

}  // namespace atops
