// Checks of ids. Door: ids.h.
#include "headwise/ops/ids.h"

#include "headwise/ops/check_view.h"

namespace headwise {

void CheckIds(const char* op, const char* name, const ConstTensorView& ids,
              int64_t count, Device device) {
  const DType type = ids.type == DType::kI64 ? DType::kI64 : DType::kI32;
  CheckView(op, name, ids, type, {count}, device);
}

}  // namespace headwise
