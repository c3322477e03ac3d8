// Dropout's entry point and its list of implementations. Door: dropout.h.
#include "headwise/ops/dropout/dropout.h"

#include <string>

#include "headwise/error.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/dropout/implementation.h"

namespace headwise {

ImplementationList<DropoutCall> DropoutImplementations() {
  static const Implementation<DropoutCall> kList[] = {
      kDropoutCuda, kDropoutCpuF32, kDropoutReference};
  return {"dropout", kList};
}

void Dropout(Context& context, const DropoutMask& mask,
             const DropoutArgs& args) {
  if (!(mask.rate >= 0 && mask.rate < 1)) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"dropout", "a rate from 0 to below 1", std::to_string(mask.rate), ""});
  }
  const ConstTensorView& x = args.x;
  if (x.rank != 2) {
    throw Error(ErrorCode::kInvalidArgument,
                {"dropout", "x of rank 2", ToString(x), ""});
  }
  CheckView("dropout", "x", x, x.type, ShapeOf(x), x.device);
  CheckView("dropout", "y", args.y, x.type, ShapeOf(x), x.device);
  Dispatch(context, DropoutImplementations(), {mask, args});
}

}  // namespace headwise
