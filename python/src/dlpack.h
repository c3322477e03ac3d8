// The memory layout that libraries of arrays hand each other tensors in, as its
// specification gives it (DLPack, the form before versions).
#pragma once

#include <cstdint>

namespace headwise::python {

struct DlDevice {
  int32_t type;  // 1: host, 2: CUDA, 3: host memory that CUDA has pinned
  int32_t index;
};
inline constexpr int32_t kDlCpu = 1;
inline constexpr int32_t kDlCuda = 2;

struct DlType {
  uint8_t code;  // 0: int, 1: unsigned, 2: float, 4: bfloat, 6: bool
  uint8_t bits;
  uint16_t lanes;
};

struct DlTensor {
  void* data;
  DlDevice device;
  int32_t rank;
  DlType type;
  int64_t* shape;
  int64_t* stride;  // in elements; null: dense
  uint64_t offset;  // in bytes
};

struct DlManaged {
  DlTensor tensor;
  void* owner;
  void (*free)(DlManaged*);
};

inline constexpr const char* kDlName = "dltensor";
inline constexpr const char* kDlUsed = "used_dltensor";

}  // namespace headwise::python
