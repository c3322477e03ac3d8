// Entry points of AdamW and its list of implementations. Door: adamw.h.
#include "headwise/ops/adamw/adamw.h"

#include "headwise/ops/adamw/implementation.h"
#include "headwise/ops/check_view.h"

namespace headwise {

ImplementationList<AdamWCall> AdamWImplementations() {
  static const Implementation<AdamWCall> kList[] = {kAdamWCuda, kAdamWCpuF32,
                                                    kAdamWReference};
  return {"adamw", kList};
}

void AdamW(Context& context, const AdamWProblem& problem,
           const AdamWArgs& args) {
  const Shape shape = {args.value.shape[0]};
  const auto check = [&](const char* name, const ConstTensorView& view,
                         DType type) {
    CheckView("adamw", name, view, type, shape, args.value.device);
  };
  check("value", args.value, DType::kF32);
  check("gradient", args.gradient, args.gradient.type);
  check("first", args.first, DType::kF32);
  check("second", args.second, DType::kF32);
  Dispatch(context, AdamWImplementations(), {problem, args});
}

}  // namespace headwise
