// The entry point and its list of implementations. Door: head_sinks.h.
#include "headwise/ops/head_sinks/head_sinks.h"

#include <string>

#include "headwise/error.h"
#include "headwise/ops/check_view.h"
#include "headwise/ops/head_sinks/implementation.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

void Check(const HeadSinksArgs& a) {
  const Device device = a.kept_max.device;
  if (a.kept_max.rank != 3 || a.query_starts.rank != 1 || a.seen.rank != 1 ||
      a.found.rank != 2) {
    throw Error(
        ErrorCode::kInvalidArgument,
        {"head sinks",
         "kept_max [1, H, T], query_starts [B + 1], seen [S], found [M, 3]",
         ToString(a.kept_max) + ", " + ToString(a.query_starts) + ", " +
             ToString(a.seen) + ", " + ToString(a.found),
         ""});
  }
  const auto check = [&](const char* name, const ConstTensorView& view,
                         DType type, const Shape& shape) {
    CheckView("head sinks", name, view, type, shape, device);
    if (IsDense(view)) return;
    throw Error(
        ErrorCode::kInvalidArgument,
        {"head sinks", std::string(name) + " dense", ToString(view), ""});
  };
  const int64_t heads = a.kept_max.shape[1], rows = a.kept_max.shape[2];
  const int64_t starts = a.query_starts.shape[0];
  check("kept_max", a.kept_max, DType::kF32, {1, heads, rows});
  check("kept_argmax", a.kept_argmax, DType::kI32, {1, heads, rows});
  check("weights", a.weights, DType::kF32, {1, rows});
  check("seen", a.seen, DType::kI32, {a.seen.shape[0]});
  check("query_starts", a.query_starts, DType::kI32, {starts});
  check("key_starts", a.key_starts, DType::kI32, {starts});
  check("found", a.found, DType::kI32, {a.found.shape[0], 3});
  check("count", a.count, DType::kI32, {1});
}

}  // namespace

ImplementationList<HeadSinksCall> HeadSinksImplementations() {
  static const Implementation<HeadSinksCall> kList[] = {kHeadSinksCuda,
                                                        kHeadSinksReference};
  return {"head_sinks", kList};
}

void FindSinkCandidates(Context& context, const HeadSinksArgs& args) {
  Check(args);
  Dispatch(context, HeadSinksImplementations(), HeadSinksCall{args});
}

}  // namespace headwise
