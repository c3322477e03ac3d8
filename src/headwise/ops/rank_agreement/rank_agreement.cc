// The entry points and their list of implementations. Door: rank_agreement.h.
#include "headwise/ops/rank_agreement/rank_agreement.h"

#include <string>

#include "headwise/ops/check_view.h"
#include "headwise/ops/rank_agreement/implementation.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

void Check(const CosineRanksArgs& a) {
  const Device device = a.ids.device;
  if (a.table.rank != 2 || a.ids.rank != 1 || a.others.rank != 1) {
    Refuse(
        "ranks", "table [V, W], ids [R], others [n]",
        ToString(a.table) + ", " + ToString(a.ids) + ", " + ToString(a.others));
  }
  const int64_t lists = a.ids.shape[0], entries = a.others.shape[0];
  CheckView("ranks", "table", a.table, a.table.type, ShapeOf(a.table), device);
  CheckDense("ranks", "ids", a.ids, DType::kI32, {lists}, device);
  CheckDense("ranks", "others", a.others, DType::kI32, {entries}, device);
  CheckDense("ranks", "starts", a.starts, DType::kI32, {lists + 1}, device);
  CheckDense("ranks", "ranks", a.ranks, DType::kF32, {entries}, device);
  CheckDense("ranks", "norms", a.norms, DType::kF64, {lists}, device);
}

void Check(const RankAgreementArgs& a) {
  const Device device = a.shares.device;
  if (a.shares.rank != 3 || a.keys.rank != 1 || a.ranks.rank != 2 ||
      a.entropy.rank != 3) {
    Refuse("ranks",
           "shares [R, H, N], keys [n], ranks [K, n], entropy [1, H, T]",
           ToString(a.shares) + ", " + ToString(a.keys) + ", " +
               ToString(a.ranks) + ", " + ToString(a.entropy));
  }
  const int64_t lists = a.shares.shape[0], heads = a.shares.shape[1];
  const int64_t entries = a.keys.shape[0], rankings = a.ranks.shape[0];
  CheckDense("ranks", "shares", a.shares, DType::kF32,
             {lists, heads, a.shares.shape[2]}, device);
  CheckDense("ranks", "keys", a.keys, DType::kI32, {entries}, device);
  CheckDense("ranks", "starts", a.starts, DType::kI32, {lists + 1}, device);
  CheckDense("ranks", "ranks", a.ranks, DType::kF32, {rankings, entries},
             device);
  CheckDense("ranks", "norms", a.norms, DType::kF64, {rankings, lists}, device);
  CheckDense("ranks", "entropy", a.entropy, DType::kF32,
             {1, heads, a.entropy.shape[2]}, device);
  CheckDense("ranks", "rows", a.rows, DType::kI32, {lists}, device);
  CheckDense("ranks", "agreement", a.agreement, DType::kF64,
             {lists, heads, rankings}, device);
}

}  // namespace

ImplementationList<RanksCall> RanksImplementations() {
  static const Implementation<RanksCall> kList[] = {kRanksCuda,
                                                    kRanksReference};
  return {"rank_agreement", kList};
}

void CosineRanks(Context& context, const CosineRanksArgs& args) {
  Check(args);
  if (args.ids.size() == 0) return;
  Dispatch(context, RanksImplementations(), RanksCall{.cosines = &args});
}

void RankAgreement(Context& context, const RankAgreementArgs& args) {
  Check(args);
  if (args.agreement.size() == 0) return;
  Dispatch(context, RanksImplementations(), RanksCall{.agreement = &args});
}

}  // namespace headwise
