// The DTE (TOPS C++, 8.7): contexts, mdspan, and the 22 operations with their asynchronous forms.
#pragma once

#include <initializer_list>

#include "language.h"

namespace tops {

using Space = atops::Space;
constexpr Space Global = Space::global, Shared = Space::shared, Local = Space::local, Private = Space::local;

// Numbers, one for each dimension: `{0, 4}`, an array, or several in a row.
struct numbers {
    int64_t values[atops::MOST_DIMENSIONS] = {};
    int count = 0;

    numbers() = default;
    template <class T, size_t N>
    numbers(const T (&given)[N]) {
        static_assert(N <= atops::MOST_DIMENSIONS, "the DTE has fewer dimensions");
        for (size_t each = 0; each < N; ++each) values[count++] = int64_t(given[each]);
    }
    // Of a list with a name: `auto shape = {2, 3};`
    template <class List>
        requires requires(const List &list) { list.begin(), list.end(), int64_t(*list.begin()); }
    numbers(const List &given) {
        for (auto each : given) {
            if (count == atops::MOST_DIMENSIONS)
                atops::fail(atops::Fault::dte_error, "numbers for more dimensions than the DTE has", "", 0);
            values[count++] = int64_t(each);
        }
    }
    template <class... T, class = std::enable_if_t<(std::is_convertible_v<T, int64_t> && ...)>>
    numbers(T... given) {
        static_assert(sizeof...(T) <= atops::MOST_DIMENSIONS, "the DTE has fewer dimensions");
        ((values[count++] = int64_t(given)), ...);
    }
};

struct NotAnAddress { char none; };  // what an mdspan is of whose address is a number

// Memory with a shape: the innermost dimension last. Of an array's address, T is what the array is of: as T itself, some
// compilers would prefer the array, which the constructors have, to the guides below.
template <class T>
    requires(!std::is_array_v<T>)
struct mdspan {
    T *address;
    Space space = Space::unknown;
    numbers extents;

    template <class... Extent, class = std::enable_if_t<(std::is_convertible_v<Extent, int64_t> && ...)>>
    mdspan(T *address, Extent... extents) : address(address), extents(extents...) {}
    template <class Extent, size_t N>
    mdspan(T *address, const Extent (&extents)[N]) : address(address), extents(extents) {}
    template <class... Extent, class = std::enable_if_t<(std::is_convertible_v<Extent, int64_t> && ...)>>
    mdspan(Space space, T *address, Extent... extents) : address(address), space(space), extents(extents...) {}
    template <class Extent, size_t N>
    mdspan(Space space, T *address, const Extent (&extents)[N]) : address(address), space(space), extents(extents) {}
    template <class List>
        requires requires(const List &list) { list.begin(), list.end(); }
    mdspan(T *address, const List &extents) : address(address), extents(extents) {}
    template <class List>
        requires requires(const List &list) { list.begin(), list.end(); }
    mdspan(Space space, T *address, const List &extents) : address(address), space(space), extents(extents) {}
    // The address of an array, `&buffer`, is that of its first element.
    template <class A, class... Extents>
        requires std::is_array_v<A>
    mdspan(A *array, const Extents &...extents) : mdspan(reinterpret_cast<T *>(array), extents...) {}
    template <class A, class... Extents>
        requires std::is_array_v<A>
    mdspan(Space space, A *array, const Extents &...extents) : mdspan(space, reinterpret_cast<T *>(array), extents...) {}
    template <class... Given>
        requires std::is_same_v<T, NotAnAddress>
    __attribute__((error("mdspan takes an address, and the extents behind it: mdspan(x, 4), mdspan(tops::Global, x, 4)")))
    mdspan(const Given &...);

    operator atops::Operand() const {
        atops::Operand made{};
        made.address = const_cast<std::remove_const_t<T> *>(address);
        made.rank = extents.count;
        made.item = sizeof(T);
        made.space = space;
        for (int each = 0; each < extents.count; ++each) made.extents[each] = extents.values[each];
        return made;
    }
    int64_t size() const {
        int64_t count = 1;
        for (int each = 0; each < extents.count; ++each) count *= extents.values[each];
        return count;
    }
};
template <class T, class... Extent>
mdspan(T *, Extent...) -> mdspan<std::remove_all_extents_t<T>>;
template <class T, class Extent, size_t N>
mdspan(T *, const Extent (&)[N]) -> mdspan<std::remove_all_extents_t<T>>;
template <class T, class List>
    requires requires(const List &list) { list.begin(), list.end(); }
mdspan(T *, const List &) -> mdspan<std::remove_all_extents_t<T>>;
template <class T, class List>
    requires requires(const List &list) { list.begin(), list.end(); }
mdspan(Space, T *, const List &) -> mdspan<std::remove_all_extents_t<T>>;
template <class T, class... Extent>
mdspan(Space, T *, Extent...) -> mdspan<std::remove_all_extents_t<T>>;
template <class T, class Extent, size_t N>
mdspan(Space, T *, const Extent (&)[N]) -> mdspan<std::remove_all_extents_t<T>>;

template <class T, class... Given>
    requires std::is_arithmetic_v<T>
mdspan(T, const Given &...) -> mdspan<NotAnAddress>;
template <class T, class... Given>
    requires std::is_arithmetic_v<T>
mdspan(Space, T, const Given &...) -> mdspan<NotAnAddress>;

// Any of them, where the type of the elements is not said.
struct mdspan_base {
    atops::Operand own;
    template <class T>
    mdspan_base(const mdspan<T> &given) : own(given) {}
    operator atops::Operand() const { return own; }
};

}  // namespace tops

// ---- what each operation is made of: a description, which both of its forms carry out

namespace atops::describe {

using tops::mdspan;
using tops::numbers;

template <class T>
uint64_t bits(T value) {
    static_assert(sizeof(T) <= 8);
    uint64_t made = 0;
    memcpy(&made, &value, sizeof value);
    return made;
}

// What is filled in: any number for any type of elements, a class around one too.
template <class D>
struct Filling {
    std::remove_const_t<D> own{};

    Filling() = default;
    template <class Number>
    Filling(Number given) {
        if constexpr (std::is_constructible_v<std::remove_const_t<D>, Number>)
            own = std::remove_const_t<D>(given);
        else
            own = std::remove_const_t<D>(float(given));
    }
};

template <class D>
using Fill = std::type_identity_t<Filling<D>>;  // D is that of dst

inline void take(int64_t *to, int32_t &count, const numbers &from) {
    for (int each = 0; each < from.count; ++each) to[each] = from.values[each];
    count = from.count;
}

struct Description : Transfer {
    Description(Take take, Turn turn, Land land, const Operand &to) {
        this->take = take;
        this->turn = turn;
        this->land = land;
        dst = to;
    }
    Description &from(const Operand &operand) { return src = operand, *this; }
    Description &window(const numbers &given) { return describe::take(src_offsets, numbers_given[0], given), *this; }
    Description &shape(const numbers &given) {
        has_shape = true;
        return describe::take(slice_shape, numbers_given[1], given), *this;
    }
    Description &at(const numbers &given) { return describe::take(dst_offsets, numbers_given[2], given), *this; }
    Description &order(const numbers &given) { return describe::take(layout, numbers_given[3], given), *this; }
    Description &around(const numbers &before, const numbers &behind, const numbers &between) {
        describe::take(low, numbers_given[4], before);
        describe::take(high, numbers_given[5], behind);
        return describe::take(mid, numbers_given[6], between), *this;
    }
    Description &parts(int which, int how_many) { return phase = which, ratio = how_many, *this; }
    template <class T>
    Description &fill(T given) {
        return value = bits(given), *this;
    }
};

template <class D, class S>
inline Transfer memcpy(const mdspan<D> &dst, const mdspan<S> &src) {
    return Description(Take::all, Turn::plain, Land::bytes, dst).from(src);
}
template <class D, class V>
inline Transfer memset(const mdspan<D> &dst, V value) {
    return Description(Take::none, Turn::plain, Land::fill, dst).fill(Filling<D>(value).own);
}
template <class D, class S>
inline Transfer slice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset, Filling<D> value)
    {
    return Description(Take::window, Turn::plain, Land::whole, dst).from(src).window(offset).fill(value.own);
}
template <class D, class S>
inline Transfer deslice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset) {
    return Description(Take::all, Turn::plain, Land::window, dst).from(src).at(offset);
}
template <class D, class S>
inline Transfer transpose(const mdspan<D> &dst, const mdspan<S> &src, const numbers &layout) {
    return Description(Take::all, Turn::permute, Land::whole, dst).from(src).order(layout);
}
template <class D, class S>
inline Transfer slice_transpose(const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset, const numbers
    &layout, Filling<D> value) {
    return Description(Take::window, Turn::permute, Land::whole,
        dst).from(src).window(offset).order(layout).fill(value.own);
}
template <class D, class S>
inline Transfer transpose_deslice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &offset, const numbers
    &layout) {
    return Description(Take::all, Turn::permute, Land::window, dst).from(src).at(offset).order(layout);
}
template <class D, class S>
inline Transfer pad(const mdspan<D> &dst, const mdspan<S> &src, const numbers &pad_low, const numbers &pad_high, const
    numbers &pad_mid, Filling<D> pad_value) {
    return Description(Take::all, Turn::plain, Land::padded, dst).from(src).around(pad_low, pad_high,
        pad_mid).fill(pad_value.own);
}
template <class D, class S>
inline Transfer mirror_tb(const mdspan<D> &dst, const mdspan<S> &src) {
    return Description(Take::all, Turn::mirror_x, Land::whole, dst).from(src);
}
template <class D, class S>
inline Transfer mirror_lr(const mdspan<D> &dst, const mdspan<S> &src) {
    return Description(Take::all, Turn::mirror_y, Land::whole, dst).from(src);
}
template <class D, class S>
inline Transfer broadcast(const mdspan<D> &dst, const mdspan<S> &src) {
    return Description(Take::all, Turn::plain, Land::repeated, dst).from(src);
}
template <class D, class S>
inline Transfer slice_pad(const mdspan<D> &dst, const mdspan<S> &src, const numbers &src_offsets, const numbers
    &slice_shape, const numbers &pad_low, const numbers &pad_high, const numbers &pad_mid, Filling<D>
    pad_value) {
    return Description(Take::window, Turn::plain, Land::padded,
        dst).from(src).window(src_offsets).shape(slice_shape).around(pad_low, pad_high, pad_mid).fill(pad_value.own);
}
template <class D, class S>
inline Transfer slice_deslice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &src_offsets, const numbers
    &slice_shape, const numbers &dst_offsets) {
    return Description(Take::window, Turn::plain, Land::window,
        dst).from(src).window(src_offsets).shape(slice_shape).at(dst_offsets);
}
template <class D, class S>
inline Transfer slice_broadcast(const mdspan<D> &dst, const mdspan<S> &src, const numbers &src_offsets, const numbers
    &slice_shape) {
    return Description(Take::window, Turn::plain, Land::repeated,
        dst).from(src).window(src_offsets).shape(slice_shape);
}
template <class D, class S>
inline Transfer slice_expand(const mdspan<D> &dst, const mdspan<S> &src, const numbers &src_offsets, const numbers
    &slice_shape, int phase, int ratio) {
    return Description(Take::window, Turn::expand, Land::whole,
        dst).from(src).window(src_offsets).shape(slice_shape).parts(phase, ratio);
}
template <class D, class S>
inline Transfer shrink_deslice(const mdspan<D> &dst, const mdspan<S> &src, int phase, int ratio, const numbers
    &dst_offsets) {
    return Description(Take::all, Turn::shrink, Land::window, dst).from(src).parts(phase, ratio).at(dst_offsets);
}
template <class D, class S, class V>
inline Transfer memset_deslice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &dst_offsets, V value) {
    return Description(Take::all, Turn::replace, Land::window, dst).from(src).at(dst_offsets).fill(Filling<D>(value).own);
}
template <class D, class S>
inline Transfer mirror_tb_pad(const mdspan<D> &dst, const mdspan<S> &src, const numbers &pad_low, const numbers
    &pad_high, const numbers &pad_mid, Filling<D> value) {
    return Description(Take::all, Turn::mirror_x, Land::padded, dst).from(src).around(pad_low, pad_high,
        pad_mid).fill(value.own);
}
template <class D, class S>
inline Transfer mirror_lr_pad(const mdspan<D> &dst, const mdspan<S> &src, const numbers &pad_low, const numbers
    &pad_high, const numbers &pad_mid, Filling<D> value) {
    return Description(Take::all, Turn::mirror_y, Land::padded, dst).from(src).around(pad_low, pad_high,
        pad_mid).fill(value.own);
}
template <class D, class S>
inline Transfer mirror_tb_deslice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &dst_offsets) {
    return Description(Take::all, Turn::mirror_x, Land::window, dst).from(src).at(dst_offsets);
}
template <class D, class S>
inline Transfer mirror_lr_deslice(const mdspan<D> &dst, const mdspan<S> &src, const numbers &dst_offsets) {
    return Description(Take::all, Turn::mirror_y, Land::window, dst).from(src).at(dst_offsets);
}
template <class D, class S>
inline Transfer sub_sample(const mdspan<D> &dst, const mdspan<S> &src, const numbers &dim_stride) {
    return Description(Take::all, Turn::stride, Land::whole, dst).from(src).order(dim_stride);
}

}  // namespace atops::describe

// ---- the operations: the first chip that has each, and its parameters

#define ATOPS_LIST(...) __VA_ARGS__
#define ATOPS_OPERATIONS(X) \
    X(memcpy, 210, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src), (dst, src)) \
    X(memset, 210, (class D, class V), (const tops::mdspan<D> &dst, V value), (dst, value)) \
    X(slice, 210, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, const \
      tops::numbers &offset, atops::describe::Fill<D> value = {}), (dst, src, offset, value)) \
    X(deslice, 210, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, const \
      tops::numbers &offset), (dst, src, offset)) \
    X(transpose, 210, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, const \
      tops::numbers &layout), (dst, src, layout)) \
    X(slice_transpose, 210, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, const \
      tops::numbers &offset, const tops::numbers &layout, atops::describe::Fill<D> value = {}), (dst, src, offset, \
      layout, value)) \
    X(transpose_deslice, 210, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, \
      const tops::numbers &offset, const tops::numbers &layout), (dst, src, offset, layout)) \
    X(pad, 210, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, const \
      tops::numbers &pad_low, const tops::numbers &pad_high, const tops::numbers &pad_mid, atops::describe::Fill<D> \
      pad_value = {}), (dst, src, pad_low, pad_high, pad_mid, pad_value)) \
    X(mirror_tb, 210, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src), (dst, src)) \
    X(mirror_lr, 210, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src), (dst, src)) \
    X(broadcast, 210, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src), (dst, src)) \
    X(slice_pad, 300, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, const \
      tops::numbers &src_offsets, const tops::numbers &slice_shape, const tops::numbers &pad_low, const \
      tops::numbers &pad_high, const tops::numbers &pad_mid, atops::describe::Fill<D> pad_value = {}), (dst, src, \
      src_offsets, slice_shape, pad_low, pad_high, pad_mid, pad_value)) \
    X(slice_deslice, 300, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, const \
      tops::numbers &src_offsets, const tops::numbers &slice_shape, const tops::numbers &dst_offsets), (dst, src, \
      src_offsets, slice_shape, dst_offsets)) \
    X(slice_broadcast, 300, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, const \
      tops::numbers &src_offsets, const tops::numbers &slice_shape), (dst, src, src_offsets, slice_shape)) \
    X(slice_expand, 300, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, const \
      tops::numbers &src_offsets, const tops::numbers &slice_shape, int phase, int ratio), (dst, src, \
      src_offsets, slice_shape, phase, ratio)) \
    X(shrink_deslice, 300, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, int \
      phase, int ratio, const tops::numbers &dst_offsets), (dst, src, phase, ratio, dst_offsets)) \
    X(memset_deslice, 300, (class D, class S, class V), (const tops::mdspan<D> &dst, const tops::mdspan<S> \
      &src, const tops::numbers &dst_offsets, V value), (dst, src, dst_offsets, value)) \
    X(mirror_tb_pad, 300, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, const \
      tops::numbers &pad_low, const tops::numbers &pad_high, const tops::numbers &pad_mid, atops::describe::Fill<D> \
      value = {}), (dst, src, pad_low, pad_high, pad_mid, value)) \
    X(mirror_lr_pad, 300, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, const \
      tops::numbers &pad_low, const tops::numbers &pad_high, const tops::numbers &pad_mid, atops::describe::Fill<D> \
      value = {}), (dst, src, pad_low, pad_high, pad_mid, value)) \
    X(mirror_tb_deslice, 300, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, \
      const tops::numbers &dst_offsets), (dst, src, dst_offsets)) \
    X(mirror_lr_deslice, 300, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, \
      const tops::numbers &dst_offsets), (dst, src, dst_offsets)) \
    X(sub_sample, 300, (class D, class S), (const tops::mdspan<D> &dst, const tops::mdspan<S> &src, const \
      tops::numbers &dim_stride), (dst, src, dim_stride))

// ---- contexts

struct tops_dte_ctx_base_s;

namespace tops {

using atops::Transfer;

// A transfer in flight, or one that is over, or none.
struct event {
    atops::Event own{};
    tops_dte_ctx_base_s *ctx = nullptr;

    void wait(ATOPS_SITE) const { atops::runtime->wait(own, {file, line}); }
};

inline void wait(const event &given, ATOPS_SITE) { given.wait(file, line); }
template <class... Events>
    requires(sizeof...(Events) > 0 && (std::is_same_v<Events, event> && ...))
__attribute__((error("tops::wait takes one event: call it for each"))) void wait(const event &, const Events &...);

}  // namespace tops

// A context: what it is configured to do stays until it is configured anew, and may be started again and again.
struct tops_dte_ctx_base_s {
    atops::Context own{};
    atops::Transfer configured{};

    void init(ATOPS_SITE) { atops::runtime->context(&own, 0, {file, line}); }
    void destroy(ATOPS_SITE) { atops::runtime->context(&own, 1, {file, line}); }
    void init_comm(ATOPS_SITE) { init(file, line); }
    void destroy_comm(ATOPS_SITE) { destroy(file, line); }

    tops::event issue(const atops::Transfer &given, const char *file, int line) {
        tops::event made;
        made.own = atops::runtime->issue(&own, &given, {file, line});
        made.ctx = this;
        return made;
    }

#define ATOPS_CONFIGURED(OP, SINCE, HEAD, PARAMETERS, ARGUMENTS) \
    template <ATOPS_LIST HEAD> \
    void config_##OP(ATOPS_LIST PARAMETERS) { \
        configured = atops::describe::OP<D> ARGUMENTS; \
        configured.name = #OP, configured.gcu_arch = SINCE; \
    }
    ATOPS_OPERATIONS(ATOPS_CONFIGURED)
#undef ATOPS_CONFIGURED

    void config_memcpy(const tops::mdspan_base &dst, const tops::mdspan_base &src) {
        using namespace atops;
        configured = describe::Description(Take::all, Turn::plain, Land::bytes, dst).from(src);
        configured.name = "memcpy", configured.gcu_arch = 210;
    }

    // The first `count` elements of src.
    template <class D, class S>
    void config_memcpy(const tops::mdspan<D> &dst, const tops::mdspan<S> &src, int64_t count, ATOPS_SITE) {
        config_memcpy(dst, src);
        int64_t most = dst.size() * int64_t(sizeof(D)) / int64_t(sizeof(S));
        if (src.size() < most) most = src.size();
        if (count < 0 || count > most) {
            char text[160];
            snprintf(text, sizeof text, "config_memcpy of %ld elements, where src and dst have room for %ld", long(count),
                     long(most));
            atops::fail(atops::Fault::dte_error, text, file, line);
        }
        set_total_size(count * int64_t(sizeof(S)), file, line);
    }

    tops::event trigger(ATOPS_SITE) {
        ready("trigger", file, line);
        return issue(configured, file, line);
    }
    void trigger_and_wait(ATOPS_SITE) {
        ready("trigger_and_wait", file, line);
        atops::runtime->transfer(&own, &configured, {file, line});
    }
    template <class T>
    void set_src_addr(const T *address, ATOPS_SITE) {
        ready("set_src_addr", file, line);
        if (!configured.src.rank) refuse("set_src_addr", "takes nothing from memory", file, line);
        configured.src.address = const_cast<T *>(address);
        configured.src.space = atops::Space::unknown;  // the address says where it lies
    }
    template <class T>
    void set_dst_addr(T *address, ATOPS_SITE) {
        ready("set_dst_addr", file, line);
        configured.dst.address = address;
        configured.dst.space = atops::Space::unknown;
    }
    void set_src_offset(int dim, int64_t offset, ATOPS_SITE) {
        ready("set_src_offset", file, line);
        if (configured.take != atops::Take::window) refuse("set_src_offset", "has no window in src", file, line);
        place(configured.src_offsets, configured.src.rank, "set_src_offset", dim, file, line) = offset;
    }
    void set_dst_offset(int dim, int64_t offset, ATOPS_SITE) {
        ready("set_dst_offset", file, line);
        if (configured.land != atops::Land::window) refuse("set_dst_offset", "has no window in dst", file, line);
        place(configured.dst_offsets, configured.dst.rank, "set_dst_offset", dim, file, line) = offset;
    }
    void set_src_dim_size(int dim, int64_t size, ATOPS_SITE) {
        ready("set_src_dim_size", file, line);
        if (!configured.src.rank) refuse("set_src_dim_size", "takes nothing from memory", file, line);
        place(configured.src.extents, configured.src.rank, "set_src_dim_size", dim, file, line) = size;
    }
    void set_dst_dim_size(int dim, int64_t size, ATOPS_SITE) {
        ready("set_dst_dim_size", file, line);
        place(configured.dst.extents, configured.dst.rank, "set_dst_dim_size", dim, file, line) = size;
    }
    void set_transpose_layout(const tops::numbers &layout, ATOPS_SITE) {
        ready("set_transpose_layout", file, line);
        if (configured.turn != atops::Turn::permute) refuse("set_transpose_layout", "transposes nothing", file, line);
        atops::describe::take(configured.layout, configured.numbers_given[3], layout);
    }
    void set_pad_config(const tops::numbers &pad_low, const tops::numbers &pad_high, const tops::numbers &pad_mid, ATOPS_SITE) {
        ready("set_pad_config", file, line);
        if (configured.land != atops::Land::padded) refuse("set_pad_config", "pads nothing", file, line);
        atops::describe::take(configured.low, configured.numbers_given[4], pad_low);
        atops::describe::take(configured.high, configured.numbers_given[5], pad_high);
        atops::describe::take(configured.mid, configured.numbers_given[6], pad_mid);
    }
    void set_total_size(int64_t bytes, ATOPS_SITE) {
        ready("set_total_size", file, line);
        if (configured.land == atops::Land::fill) {
            configured.dst.rank = 1, configured.dst.extents[0] = bytes / configured.dst.item;
            return;
        }
        if (configured.land != atops::Land::bytes) refuse("set_total_size", "is no memcpy and no memset", file, line);
        for (atops::Operand *each : {&configured.dst, &configured.src})
            each->rank = 1, each->item = 1, each->extents[0] = bytes;
    }

    // Lets each transfer of `other` begin after one of this context: start both, wait only for that of `other`.
    void connect(tops_dte_ctx_base_s &other, ATOPS_SITE) {
        atops::runtime->context(&own, 2, {file, line});
        atops::runtime->context(&other.own, 2, {file, line});
        for (const atops::Context *each = &own; each; each = each->earlier)
            if (each == &other.own)
                atops::fail(atops::Fault::dte_error, "connect of a DTE context to one whose transfers come first already; "
                            "neither would ever begin", file, line);
        if (other.own.earlier && other.own.earlier != &own)
            atops::fail(atops::Fault::dte_error, "connect of a second DTE context to one whose transfers come after those "
                        "of another already", file, line);
        other.own.earlier = &own;
        other.own.taken = own.serial;
    }

  private:
    [[noreturn]] void refuse(const char *what, const char *why, const char *file, int line) {
        char text[160];
        snprintf(text, sizeof text, "%s: the DTE context is configured for %s, which %s", what, configured.name, why);
        atops::fail(atops::Fault::dte_error, text, file, line);
    }
    void ready(const char *what, const char *file, int line) {
        if (configured.name) return;
        char text[160];
        snprintf(text, sizeof text, "%s of a DTE context that is not configured; call one of its config_ methods", what);
        atops::fail(atops::Fault::dte_error, text, file, line);
    }
    int64_t &place(int64_t *values, int rank, const char *what, int dim, const char *file, int line) {
        if (dim >= 0 && dim < rank) return values[dim];
        char text[160];
        snprintf(text, sizeof text, "%s: dimension %d of an operand of %d dimensions", what, dim, rank);
        atops::fail(atops::Fault::dte_error, text, file, line);
    }
};

struct tops_dte_ctx_t : tops_dte_ctx_base_s {};

inline void tops_init_dte(tops_dte_ctx_base_s &ctx, ATOPS_SITE) { ctx.init(file, line); }
inline void tops_destroy_dte(tops_dte_ctx_base_s &ctx, ATOPS_SITE) { ctx.destroy(file, line); }
// As templates they stand back behind a program's own.
template <class Context>
inline void tops_init_dte(Context *ctx, ATOPS_SITE) { ctx->init(file, line); }
template <class Context>
inline void tops_destroy_dte(Context *ctx, ATOPS_SITE) { ctx->destroy(file, line); }

namespace tops {

// Contexts that need no init: published kernels have them.
#define ATOPS_CONTEXT(name) \
    struct name : tops_dte_ctx_base_s { \
        name(ATOPS_SITE) { atops::runtime->context(&own, 3, {file, line}); } \
    }
ATOPS_CONTEXT(private_dte);
ATOPS_CONTEXT(private_cdte);
ATOPS_CONTEXT(local_dte);
#undef ATOPS_CONTEXT
struct shared_dte : tops_dte_ctx_base_s {};

// Initialises a context, and gives it back at the end of the C++ block.
class dte_scope {
    tops_dte_ctx_base_s &context;
    const char *file;  // where the scope is declared: the end of a block has no place of its own
    int line;

  public:
    explicit dte_scope(tops_dte_ctx_base_s &given, ATOPS_SITE) : context(given), file(file), line(line) {
        given.init(file, line);
    }
    ~dte_scope() { context.destroy(file, line); }
    dte_scope(const dte_scope &) = delete;
};

// ---- both forms of each operation

#define ATOPS_FORMS(OP, SINCE, HEAD, PARAMETERS, ARGUMENTS) \
    template <ATOPS_LIST HEAD> \
    inline void OP(tops_dte_ctx_base_s &ctx, ATOPS_LIST PARAMETERS, ATOPS_SITE) { \
        Transfer made = atops::describe::OP<D> ARGUMENTS; \
        made.name = #OP, made.gcu_arch = SINCE; \
        atops::runtime->transfer(&ctx.own, &made, {file, line}); \
    } \
    template <ATOPS_LIST HEAD> \
    inline event OP##_async(tops_dte_ctx_base_s &ctx, ATOPS_LIST PARAMETERS, ATOPS_SITE) { \
        Transfer made = atops::describe::OP<D> ARGUMENTS; \
        made.name = #OP "_async", made.gcu_arch = SINCE; \
        return ctx.issue(made, file, line); \
    }
ATOPS_OPERATIONS(ATOPS_FORMS)
#undef ATOPS_FORMS

}  // namespace tops

#undef ATOPS_OPERATIONS
#undef ATOPS_LIST
