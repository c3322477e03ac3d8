// Checks of single views. Door: check_view.h.
#include "headwise/ops/check_view.h"

#include <algorithm>
#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/tensor/encoding.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

bool Fits(const ConstTensorView& view, DType type, const Shape& shape,
          Device device) {
  if (view.type != type || view.rank != shape.rank() ||
      view.shape != shape.sizes()) {
    return false;
  }
  const int last = view.rank - 1;
  return view.device == device &&
         (last < 0 || view.shape[last] <= 1 || view.stride[last] == 1);
}

}  // namespace

void CheckView(const char* op, const char* name, const ConstTensorView& view,
               DType type, const Shape& shape, Device device) {
  if (!view && std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
  if (!EncodingOf(type).plain()) {
    Refuse(op, std::string(name) + " of a plain type", ToString(view));
  }
  if (view && Fits(view, type, shape, device)) return;
  const ConstTensorView wanted(nullptr, type, shape, device);
  std::string found = view ? ToString(view) : "none";
  if (view && view.rank > 0 && view.stride[view.rank - 1] != 1) {
    found += ", last stride " + std::to_string(view.stride[view.rank - 1]);
  }
  Refuse(op, std::string(name) + " " + ToString(wanted), found);
}

void CheckDense(const char* op, const char* name, const ConstTensorView& view,
                DType type, const Shape& shape, Device device) {
  CheckView(op, name, view, type, shape, device);
  if (!IsDense(view)) Refuse(op, std::string(name) + " dense", ToString(view));
}

void Refuse(const char* op, std::string expected, std::string found) {
  throw Error(ErrorCode::kInvalidArgument,
              {op, std::move(expected), std::move(found), ""});
}

std::string WhyNotOnHost(DType type,
                         std::initializer_list<ConstTensorView> views) {
  for (const ConstTensorView& view : views) {
    if (!view) continue;
    if (!view.device.is_cpu()) return "runs on the CPU only";
    if (view.type != type) {
      return std::string("takes ") + Name(type) + " only, not " +
             Name(view.type);
    }
  }
  return "";
}

}  // namespace headwise
