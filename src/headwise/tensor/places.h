// Chosen places along an axis of a stored vector or matrix, as a new tensor:
// pruning takes some, export puts them among zeros or in another order. Bytes
// are copied as they are stored, in any encoding; no value changes.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "headwise/tensor.h"

namespace headwise {

// The entries `places` of `axis`, in this order: dense, on the host. The view
// lies on the host, at any address, with any strides. `name` is the tensor's,
// for errors. Throws Error(kInvalidArgument) for places outside the axis, and
// where they cut blocks (IsPlain of headwise/tensor.h).
Tensor Select(const ConstTensorView& view, int axis,
              std::span<const int64_t> places, std::string_view name);

// Entry i of `axis` at places[i] of `all`, zeros elsewhere; the same otherwise.
Tensor Spread(const ConstTensorView& view, int axis,
              std::span<const int64_t> places, int64_t all,
              std::string_view name);

}  // namespace headwise
