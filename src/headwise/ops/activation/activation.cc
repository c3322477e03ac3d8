// Entry points of activations and their list of implementations.
// Door: activation.h.
#include "headwise/ops/activation/activation.h"

#include "headwise/error.h"
#include "headwise/ops/activation/implementation.h"
#include "headwise/ops/check_view.h"

namespace headwise {
namespace {

// All views are as x.
void Check(const char* name, const ConstTensorView& view,
           const ConstTensorView& x) {
  CheckView("activation", name, view, x.type, ShapeOf(x), x.device);
}

void CheckInputs(const ActivationArgs& args) {
  if (args.x.rank != 2) {
    throw Error(ErrorCode::kInvalidArgument,
                {"activation", "x of rank 2", ToString(args.x), ""});
  }
  Check("x", args.x, args.x);
  if (args.up) Check("up", args.up, args.x);
}

}  // namespace

ImplementationList<ActivationCall> ActivationImplementations() {
  static const Implementation<ActivationCall> kList[] = {
      kActivationCuda, kActivationCpuF32, kActivationReference};
  return {"activation", kList};
}

void ActivationForward(Context& context, const ActivationProblem& problem,
                       const ActivationArgs& args) {
  CheckInputs(args);
  Check("y", args.y, args.x);
  Dispatch(context, ActivationImplementations(), {problem, args});
}

void ActivationBackward(Context& context, const ActivationProblem& problem,
                        const ActivationArgs& args,
                        const ActivationGrads& grads) {
  CheckInputs(args);
  if (args.y) Check("y", args.y, args.x);
  Check("dy", grads.dy, args.x);
  Check("dx", grads.dx, args.x);
  if (args.up) Check("dup", grads.dup, args.x);
  Dispatch(context, ActivationImplementations(), {problem, args, &grads});
}

}  // namespace headwise
