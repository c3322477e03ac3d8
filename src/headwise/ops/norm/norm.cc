// The norm's entry points and its list of implementations. Door: norm.h.
#include "headwise/ops/norm/norm.h"

#include "headwise/error.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/norm/implementation.h"

namespace headwise {
namespace {

void Check(const char* name, const ConstTensorView& view, const NormCall& call,
           DType type, const Shape& shape) {
  CheckView("norm", name, view, type, shape, call.args.x.device);
}

void CheckInputs(const NormCall& call) {
  const ConstTensorView& x = call.args.x;
  if (x.rank != 2 && x.rank != 3) {
    throw Error(ErrorCode::kInvalidArgument,
                {"norm", "x of rank 2 or 3", ToString(x), ""});
  }
  Check("x", x, call, x.type, ShapeOf(x));
  const Shape width = {SizesOf(call).width};
  if (call.args.weight) {
    Check("weight", call.args.weight, call, DType::kF32, width);
  }
  if (call.args.bias) Check("bias", call.args.bias, call, DType::kF32, width);
}

void CheckKept(const NormCall& call, bool is_needed) {
  const NormSizes sizes = SizesOf(call);
  const Shape rows = {sizes.rows * sizes.segments};
  const bool has_mean = call.problem.kind == NormKind::kLayer;
  if (call.args.mean || (is_needed && has_mean)) {
    Check("mean", call.args.mean, call, DType::kF32, rows);
  }
  if (call.args.scale || is_needed) {
    Check("scale", call.args.scale, call, DType::kF32, rows);
  }
}

}  // namespace

ImplementationList<NormCall> NormImplementations() {
  static const Implementation<NormCall> kList[] = {kNormCuda, kNormCpuF32,
                                                   kNormReference};
  return {"norm", kList};
}

void NormForward(Context& context, const NormProblem& problem,
                 const NormArgs& args) {
  const NormCall call{problem, args};
  CheckInputs(call);
  CheckKept(call, /*is_needed=*/false);
  Check("y", args.y, call, args.x.type, ShapeOf(args.x));
  if (args.kept) Check("kept", args.kept, call, args.x.type, ShapeOf(args.x));
  Dispatch(context, NormImplementations(), call);
}

void NormBackward(Context& context, const NormProblem& problem,
                  const NormArgs& args, const NormGrads& grads) {
  const NormCall call{problem, args, &grads};
  CheckInputs(call);
  CheckKept(call, /*is_needed=*/true);
  Check("dy", grads.dy, call, args.x.type, ShapeOf(args.x));
  Check("dx", grads.dx, call, args.x.type, ShapeOf(args.x));
  if (grads.added) {
    Check("added", grads.added, call, args.x.type, ShapeOf(args.x));
  }
  const Shape width = {SizesOf(call).width};
  if (grads.dweight) Check("dweight", grads.dweight, call, DType::kF32, width);
  if (grads.dbias) Check("dbias", grads.dbias, call, DType::kF32, width);
  Dispatch(context, NormImplementations(), call);
}

}  // namespace headwise
