// Checks of single views, for validate.cc: type, shape, device, strides,
// overlap.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory_resource>
#include <string>
#include <vector>

#include "headwise/error.h"
#include "headwise/tensor.h"

namespace headwise {

[[noreturn]] void ThrowInvalid(std::string expected, std::string found,
                               std::string hint = "");

enum class ViewNeed { kOptional, kRequired };

// The views of one call. Each is checked when it is added; CheckOverlap then
// makes sure that no output shares memory with any other view.
class ViewChecker {
 public:
  // device: where all of them must be.
  explicit ViewChecker(Device device) : device_(device) {
    entries_.reserve(kUsual);
  }
  ViewChecker(const ViewChecker&) = delete;
  ViewChecker& operator=(const ViewChecker&) = delete;
  // `shape` is what the view must have; its last stride must be 1. A required
  // view may be null only where it would hold nothing.
  void Input(const char* name, const ConstTensorView& view, DType type,
             std::initializer_list<int64_t> shape,
             ViewNeed need = ViewNeed::kOptional);
  // Outputs moreover may not overlap themselves (strides of 0, say).
  void Output(const char* name, const ConstTensorView& view, DType type,
              std::initializer_list<int64_t> shape,
              ViewNeed need = ViewNeed::kOptional);
  void CheckOverlap() const;

 private:
  struct Entry {
    const char* name;
    ConstTensorView view;
    bool written;
  };
  void Check(const char* name, const ConstTensorView& view, DType type,
             std::initializer_list<int64_t> shape, ViewNeed need) const;

  static constexpr size_t kUsual = 16;

  Device device_;
  // A call without statistics has no more: it takes no memory.
  alignas(Entry) std::byte there_[kUsual * sizeof(Entry)];
  std::pmr::monotonic_buffer_resource memory_{there_, sizeof(there_)};
  std::pmr::vector<Entry> entries_{&memory_};
};

// Whether two views may share an element. Exact for dense views, for views
// that interleave with one common row stride (q, k, v of one fused
// projection), and otherwise on the safe side.
bool MayOverlap(const ConstTensorView& a, const ConstTensorView& b);

}  // namespace headwise
