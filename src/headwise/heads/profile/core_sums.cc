// Rows, the band and their sums, layer by layer. Door: core_sums.h.
#include "headwise/heads/profile/core_sums.h"

#include <string>
#include <utility>

#include "headwise/error.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/ops/head_core/head_core.h"
#include "headwise/tensor/slice.h"

namespace headwise {
namespace {

Tensor BytesOn(Context& context, const std::vector<uint8_t>& bytes) {
  if (bytes.empty()) return {};
  return ToDevice(context,
                  ConstTensorView(bytes.data(), DType::kU8,
                                  {static_cast<int64_t>(bytes.size())}));
}

}  // namespace

CoreSums::CoreSums(Context& context, Profile& profile, int64_t min_visible)
    : context_(context), profile_(profile), min_visible_(min_visible) {
  AddSlot("entropy", kCoreEntropy, kCoreRows);
  AddSlot("entropy.normalised", kCoreNormalised, kCoreRows);
  AddSlot("max", kCoreMax, kCoreRows);
  AddSlot("broad", kCoreBroad, kCoreRows);
  AddSlot("distance", kCoreDistance, kCoreRows);
  AddSlot("distance.argmax", kCoreArgmaxDistance, kCoreRows);
  AddSlot("first", kCoreFirst, kCoreSeesFirst);
  AddSlot("first.chance", kCoreFirstChance, kCoreSeesFirst);
  AddSlot("first.argmax", kCoreFirstArgmax, kCoreSeesFirst);
  for (int k = -1; k <= 1; ++k) {
    const int column = kCoreOffsets + (k + 1) * kOffsetColumns;
    const std::string name = OffsetMetric(k);
    AddSlot(name, column + 1, column);
    AddSlot(name + ".chance", column + 2, column);
    AddSlot(name + ".argmax", column + 3, column);
  }
  for (size_t i = 0; i < profile.heads.size(); ++i) {
    const HeadRef& head = profile.heads[i];
    first_head_.try_emplace({head.kind, head.layer}, i);
  }
}

void CoreSums::AddSlot(const std::string& name, int sum, int weight) {
  slots_.push_back({&profile_.Tallies(name), sum, weight});
}

CoreSums::Tokens CoreSums::Prepare(Context& beside, int64_t sequences,
                                   const std::vector<uint8_t>& source,
                                   const std::vector<uint8_t>& target) {
  Tokens tokens{sequences, BytesOn(beside, source), BytesOn(beside, target)};
  beside.Synchronize();  // what is copied is read until then
  return tokens;
}

void CoreSums::Begin(Tokens tokens) {
  run_ = {};
  run_.sums = Tensor::Undefined(
      context_, DType::kF64,
      {static_cast<int64_t>(profile_.heads.size()) * tokens.sequences,
       kCoreColumns});
  run_.tokens = std::move(tokens);
}

void CoreSums::BeforeAttention(const AttentionSite& site,
                               const AttentionProblem& problem,
                               AttentionArgs& args) {
  const Tensor& special = SpecialOf(site);
  if (!problem.packed || problem.batch != run_.tokens.sequences ||
      args.q.shape[1] != special.size()) {
    throw Error(ErrorCode::kInternal,
                {"profile",
                 "a run of the " + std::to_string(special.size()) +
                     " tokens that were announced",
                 std::to_string(args.q.shape[1]), ""});
  }
  const Shape rows = {1, problem.heads, args.q.shape[1]};
  entropy_ = Temp(context_, DType::kF32, rows);
  max_ = Temp(context_, DType::kF32, rows);
  argmax_ = Temp(context_, DType::kI32, rows);
  distance_ = Temp(context_, DType::kF32, rows);
  observation_ = {};
  observation_.statistics = Statistics::kCore;
  observation_.rows.entropy = entropy_.view();
  observation_.rows.max_probability = max_.view();
  observation_.rows.argmax = argmax_.view();
  observation_.rows.distance = distance_.view();
  args.observation = &observation_;
}

void CoreSums::AfterAttention(const AttentionSite& site,
                              const AttentionProblem& problem,
                              const AttentionArgs& args) {
  const bool cross = site.kind == AttentionKind::kCross;
  const int64_t heads = problem.heads, rows = args.q.shape[1];
  const size_t first = first_head_.at({site.kind, site.layer});
  HeadCoreProblem core{.mask = problem.mask,
                       .cross = cross,
                       .min_visible = min_visible_,
                       .before = cross ? 0 : 1,
                       .after = cross || problem.mask.after == 0 ? 0 : 1,
                       .longest = problem.query_len};
  const Temp band(context_, DType::kF32,
                  {1, heads, rows, core.before + core.after + 1});
  const Temp first_key(context_, DType::kF32, {1, heads, rows});
  AttentionArgs scores = args;
  scores.observation = nullptr;
  AttentionBand(context_, problem, scores, core.before, core.after, band.view(),
                first_key.view());
  const int64_t sequences = run_.tokens.sequences;
  const auto begin = static_cast<int64_t>(first) * sequences;
  const Tensor& special = SpecialOf(site);
  HeadCoreSums(context_, core,
               {.entropy = entropy_.view(),
                .max_probability = max_.view(),
                .argmax = argmax_.view(),
                .distance = distance_.view(),
                .first = first_key.view(),
                .band = band.view(),
                .query_starts = args.query_starts,
                .key_starts = args.key_starts,
                .special = special.view(),
                .sums = Reshaped(
                    Rows(run_.sums.view(), begin, begin + heads * sequences),
                    {sequences, heads, kCoreColumns})});
  run_.parts.push_back({first, heads, cross});
  for (Temp* kept : {&entropy_, &max_, &argmax_, &distance_}) *kept = Temp();
}

void CoreSums::Add(Context& beside, Done done) {
  if (done.parts.empty()) return;
  const std::vector<double> all = ToVector<double>(beside, done.sums.view());
  const int64_t sequences = done.tokens.sequences;
  for (const Part& part : done.parts) {
    const double* from = all.data() + static_cast<int64_t>(part.first_head) *
                                          sequences * kCoreColumns;
    for (int64_t b = 0; b < sequences; ++b) {
      for (int64_t h = 0; h < part.heads; ++h, from += kCoreColumns) {
        for (const Slot& slot : slots_) {
          const bool of_places =
              slot.sum == kCoreDistance || slot.sum == kCoreArgmaxDistance;
          if (part.cross && of_places) continue;
          (*slot.tallies)[part.first_head + static_cast<size_t>(h)].Add(
              from[slot.sum], from[slot.weight]);
        }
      }
    }
  }
}

}  // namespace headwise
