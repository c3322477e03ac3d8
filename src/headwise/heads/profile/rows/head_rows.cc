// The entry point and its list of implementations. Door: head_rows.h.
#include "headwise/heads/profile/rows/head_rows.h"

#include <algorithm>
#include <string>

#include "headwise/error.h"
#include "headwise/heads/profile/rows/implementation.h"
#include "headwise/ops/check_view.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

class Checker {
 public:
  explicit Checker(const HeadRowsArgs& a) : device_(a.entropy.device) {}

  void operator()(const char* name, const ConstTensorView& view, DType type,
                  const Shape& shape) const {
    CheckView("head rows", name, view, type, shape, device_);
    if (IsDense(view)) return;
    throw Error(
        ErrorCode::kInvalidArgument,
        {"head rows", std::string(name) + " dense", ToString(view), ""});
  }

 private:
  Device device_;
};

void CheckSides(const HeadRowsProblem& problem, const HeadRowsArgs& a,
                const Checker& check) {
  const int64_t heads = a.entropy.shape[1], rows = a.entropy.shape[2];
  const int64_t keys = a.special.shape[0];
  const int64_t starts = a.query_starts.shape[0];
  check("notes", a.notes, DType::kU8,
        {rows, static_cast<int64_t>(sizeof(RowNotes))});
  check("special", a.special, DType::kU8, {keys});
  check("punctuation", a.punctuation, DType::kU8, {keys});
  check("rare", a.rare, DType::kU8, {keys});
  check("ids", a.ids, DType::kI32, {keys});
  check("query_starts", a.query_starts, DType::kI32, {starts});
  check("key_starts", a.key_starts, DType::kI32, {starts});
  if (a.pair_keys) {
    const int64_t pairs = a.pair_keys.shape[0];
    const int64_t listed = a.pair_split.shape[0];
    check("pair_keys", a.pair_keys, DType::kI32, {pairs});
    check("pair_split", a.pair_split, DType::kI32, {listed});
    check("pair_offsets", a.pair_offsets, DType::kI64, {listed + 1});
    check("pair_mass", a.pair_mass, DType::kF32, {heads, pairs});
  }
  if (a.sink_starts) {
    const int64_t sinks = a.sink_keys.shape[0];
    check("sink_starts", a.sink_starts, DType::kI32,
          {(starts - 1) * heads + 1});
    check("sink_keys", a.sink_keys, DType::kI32, {sinks});
    check("sink_at", a.sink_at, DType::kI64, {sinks});
    check("sink_mass", a.sink_mass, DType::kF32, {a.sink_mass.shape[0]});
  }
}

void Check(const HeadRowsProblem& problem, const HeadRowsArgs& a) {
  if (a.entropy.rank != 3 || a.query_starts.rank != 1 || a.special.rank != 1 ||
      std::min(problem.before, problem.after) < 0 ||
      std::max(problem.before, problem.after) > kFarthestOffset) {
    throw Error(ErrorCode::kInvalidArgument,
                {"head rows",
                 "entropy [1, H, T], query_starts [B + 1], special [S] and a "
                 "band of at most " +
                     std::to_string(kFarthestOffset) + " before and after",
                 ToString(a.entropy) + ", " + ToString(a.query_starts) + ", " +
                     ToString(a.special),
                 ""});
  }
  const Checker check(a);
  const int64_t heads = a.entropy.shape[1], rows = a.entropy.shape[2];
  const int64_t sequences = a.query_starts.shape[0] - 1;
  const Shape row = {1, heads, rows};
  check("entropy", a.entropy, DType::kF32, row);
  check("max_probability", a.max_probability, DType::kF32, row);
  check("argmax", a.argmax, DType::kI32, row);
  check("distance", a.distance, DType::kF32, row);
  check("kept_max", a.kept_max, DType::kF32, row);
  check("kept_argmax", a.kept_argmax, DType::kI32, row);
  check("feature_mass", a.feature_mass, DType::kF32,
        {1, heads, rows, kKeyFeatures});
  if (problem.causal) {
    check("label_mass", a.label_mass, DType::kF32,
          {1, heads, rows, kLabelChannels});
  }
  if (!problem.cross) {
    check("band", a.band, DType::kF32,
          {1, heads, rows, problem.before + problem.after + 1});
  }
  if (a.below_end) check("below_end", a.below_end, DType::kF32, row);
  CheckSides(problem, a, check);
  check("tallies", a.tallies, DType::kF64, {heads, kHeadSlots, kTallyNumbers});
  if (a.histogram) {
    const int64_t columns = a.histogram.shape[2];
    check("histogram", a.histogram, DType::kF64, {sequences, heads, columns});
    check("histogram_sums", a.histogram_sums, DType::kF64, {heads, columns});
  }
  if (a.best_rows) {
    const Shape best = {sequences, heads, kBestRows};
    check("best_rows", a.best_rows, DType::kI32, best);
    check("best_scores", a.best_scores, DType::kF32, best);
  }
}

}  // namespace

ImplementationList<HeadRowsCall> HeadRowsImplementations() {
  static const Implementation<HeadRowsCall> kList[] = {kHeadRowsCuda,
                                                       kHeadRowsReference};
  return {"head_rows", kList};
}

void HeadRowTallies(Context& context, const HeadRowsProblem& problem,
                    const HeadRowsArgs& args) {
  Check(problem, args);
  if (args.tallies.size() == 0) return;
  Dispatch(context, HeadRowsImplementations(), HeadRowsCall{problem, args});
}

}  // namespace headwise
