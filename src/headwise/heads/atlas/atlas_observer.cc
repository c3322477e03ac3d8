// Sums of rows on the host, by head. Door: atlas_observer.h.
#include "headwise/heads/atlas/atlas_observer.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "headwise/backend/cpu/thread_pool.h"
#include "headwise/model/head_ref.h"
#include "headwise/ops/copy/copy.h"

namespace headwise {
namespace {

// Mass, and its first two moments about the middle of a sequence: what the
// variance of distances is made of. The middle keeps the squares small.
constexpr int64_t kMoments = 3;
constexpr int64_t kBand = 2;  // the key before, the query's own

float FromMiddle(int64_t position, int64_t size) {
  return static_cast<float>(position) - 0.5f * static_cast<float>(size - 1);
}

}  // namespace

// What a layer's call left, on the host.
struct AtlasObserver::Results {
  int64_t heads = 0, rows = 0;
  bool labelled = false;
  const double* sums = nullptr;       // [B, H, kSumColumns]
  const double* histogram = nullptr;  // [B, H, kHistogramBuckets]
  const double* labels = nullptr;     // [B, H]
  const float* largest = nullptr;     // [H, T], first keys left out
  const int32_t* largest_key = nullptr;
  const float* moments = nullptr;  // [H, T, kMoments]
  const float* band = nullptr;     // [H, T, kBand]
  const float* repeats = nullptr;  // [H, pairs]
};

AtlasObserver::AtlasObserver(Context& context, const Model& model)
    : context_(context) {
  for (const HeadRef& head : AllHeads(model)) {
    first_head_.try_emplace(head.layer, heads_++);
  }
}

void AtlasObserver::Begin(std::span<const TokenWindow> windows) {
  windows_ = windows;
  starts_ = {0};
  ids_.clear();
  for (const TokenWindow& window : windows) {
    const std::vector<int32_t>& ids = window.source.ids;
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    starts_.push_back(static_cast<int64_t>(ids_.size()));
  }
  NoteTokens();
  NoteRepeats();
  HeadRun empty;
  empty.strengths.assign(windows.size(), 0);
  empty.queries.assign(tokens_.size(), 0);
  empty.keys.assign(tokens_.size(), 0);
  runs_.assign(heads_, empty);
}

void AtlasObserver::NoteTokens() {
  std::unordered_map<int32_t, int32_t> places;
  tokens_.clear();
  at_.clear();
  for (const int32_t id : ids_) {
    const auto [found, added] =
        places.emplace(id, static_cast<int32_t>(tokens_.size()));
    if (added) tokens_.push_back(id);
    at_.push_back(found->second);
  }
  const auto rows = static_cast<int64_t>(ids_.size());
  Tensor features(DType::kF32, {1, rows, kMoments});
  Tensor query_labels(DType::kI32, {1, 1, rows});
  Tensor key_labels(DType::kI32, {1, 1, rows});
  Tensor first(DType::kU8, {1, rows});
  for (int64_t b = 0; b < Sequences(); ++b) {
    for (int64_t j = 0; j < SizeOf(b); ++j) {
      const int64_t t = starts_[b] + j;
      const float place = FromMiddle(j, SizeOf(b));
      float* feature = features.As<float>() + t * kMoments;
      feature[0] = 1;
      feature[1] = place;
      feature[2] = place * place;
      query_labels.As<int32_t>()[t] = ids_[t];
      key_labels.As<int32_t>()[t] = j > 0 ? ids_[t - 1] : -1;
      first.As<uint8_t>()[t] = j == 0 ? 1 : 0;
    }
  }
  features_ = ToDevice(context_, features.view());
  query_labels_ = ToDevice(context_, query_labels.view());
  key_labels_ = ToDevice(context_, key_labels.view());
  first_keys_ = ToDevice(context_, first.view());
  context_.Synchronize();
}

// Keys that follow earlier copies of a row's token.
void AtlasObserver::NoteRepeats() {
  repeat_rows_.clear();
  repeat_offsets_ = {0};
  repeat_keys_.clear();
  repeats_ = 0;
  for (int64_t b = 0; b < Sequences(); ++b) {
    std::unordered_map<int32_t, std::vector<int32_t>> after;
    for (int64_t q = 0; q < SizeOf(b); ++q) {
      std::vector<int32_t>& keys = after[ids_[starts_[b] + q]];
      if (!keys.empty()) {
        ++repeats_;
        repeat_rows_.push_back({b, q});
        repeat_keys_.insert(repeat_keys_.end(), keys.begin(), keys.end());
        repeat_offsets_.push_back(static_cast<int64_t>(repeat_keys_.size()));
      }
      if (q + 1 < SizeOf(b)) keys.push_back(static_cast<int32_t>(q + 1));
    }
  }
}

void AtlasObserver::BeforeAttention(const AttentionSite& site,
                                    const AttentionProblem& problem,
                                    AttentionArgs& args) {
  const int64_t heads = problem.heads, rows = args.q.shape[1];
  const int64_t sequences = Sequences();
  sums_ = HostResult(context_, DType::kF64, {sequences, heads, kSumColumns});
  histogram_ =
      HostResult(context_, DType::kF64, {sequences, heads, kHistogramBuckets});
  largest_ = HostResult(context_, DType::kF32, {1, heads, rows});
  largest_key_ = HostResult(context_, DType::kI32, {1, heads, rows});
  mass_ = HostResult(context_, DType::kF32, {1, heads, rows, kMoments});
  observation_ = {};
  observation_.statistics = Statistics::kFull;
  observation_.key_features = features_.view();
  observation_.excluded_keys = first_keys_.view();
  observation_.rows.kept_max = largest_.view();
  observation_.rows.kept_argmax = largest_key_.view();
  observation_.rows.feature_mass = mass_.view();
  observation_.summed.sums = sums_.view();
  observation_.summed.histogram = histogram_.view();
  if (problem.mask.after == 0) {  // a label's keys are all before the query
    labels_ = HostResult(context_, DType::kF64, {sequences, heads, 1});
    observation_.query_labels = query_labels_.view();
    observation_.key_labels = key_labels_.view();
    observation_.summed.label_mass = labels_.view();
  }
  args.observation = &observation_;
}

void AtlasObserver::AfterAttention(const AttentionSite& site,
                                   const AttentionProblem& problem,
                                   const AttentionArgs& args) {
  Results results;
  results.heads = problem.heads;
  results.rows = args.q.shape[1];
  results.labelled = problem.mask.after == 0;
  HostResult band(context_, DType::kF32,
                  {1, results.heads, results.rows, kBand});
  AttentionBand(context_, problem, args, 1, 0, band.view());
  HostResult repeats;
  if (!results.labelled && !repeat_keys_.empty()) {
    const auto pairs = static_cast<int64_t>(repeat_keys_.size());
    repeats = HostResult(context_, DType::kF32, {results.heads, pairs});
    AttentionPairs(context_, problem, args,
                   {repeat_rows_, repeat_offsets_, repeat_keys_}, {},
                   repeats.view(), {});
    repeats.Fetch(context_);
    results.repeats = repeats.As<float>();
  }
  for (HostResult* one :
       {&sums_, &histogram_, &largest_, &largest_key_, &mass_, &band}) {
    one->Fetch(context_);
  }
  if (results.labelled) {
    labels_.Fetch(context_);
    results.labels = labels_.As<double>();
  }
  results.sums = sums_.As<double>();
  results.histogram = histogram_.As<double>();
  results.largest = largest_.As<float>();
  results.largest_key = largest_key_.As<int32_t>();
  results.moments = mass_.As<float>();
  results.band = band.As<float>();
  const size_t first = first_head_.at(site.layer);
  context_.pool().ParallelFor(results.heads, [&](int64_t h, int) {
    AddHead(results, h, runs_[first + static_cast<size_t>(h)]);
  });
}

void AtlasObserver::AddHead(const Results& results, int64_t head,
                            HeadRun& run) const {
  RowTotals& totals = run.totals;
  for (int64_t b = 0; b < Sequences(); ++b) {
    const int64_t sums = b * results.heads + head;
    totals.entropy += results.sums[sums * kSumColumns + kSumEntropy];
    totals.distance += results.sums[sums * kSumColumns + kSumDistance];
    for (int c = 0; c < kHistogramBuckets; ++c) {
      totals.distances[c] += results.histogram[sums * kHistogramBuckets + c];
    }
    if (results.labelled) totals.induction += results.labels[sums];
    for (int64_t q = 0; q < SizeOf(b); ++q) {
      const int64_t t = starts_[b] + q;
      const int64_t row = head * results.rows + t;
      const float* moments = results.moments + row * kMoments;
      const double place = FromMiddle(q, SizeOf(b));
      const double squares =
          place * place * moments[0] - 2 * place * moments[1] + moments[2];
      if (!std::isfinite(squares)) continue;
      totals.distance_squares += squares;
      totals.previous += results.band[row * kBand];
      totals.self += results.band[row * kBand + 1];
      const int32_t key = results.largest_key[row];
      if (q == 0 || key < 0) continue;
      const float largest = results.largest[row];
      run.strengths[b] = std::max(run.strengths[b], largest);
      run.queries[at_[t]] += largest;
      run.keys[at_[starts_[b] + key]] += largest;
    }
  }
  if (results.repeats == nullptr) return;
  const auto pairs = static_cast<int64_t>(repeat_keys_.size());
  for (int64_t p = 0; p < pairs; ++p) {
    totals.induction += results.repeats[head * pairs + p];
  }
}

void AtlasObserver::Finish(int64_t first, AtlasSums& sums) {
  sums.counts.sequences += Sequences();
  sums.counts.tokens += static_cast<int64_t>(ids_.size());
  sums.counts.repeats += repeats_;
  const auto weights = [&](const std::vector<double>& from) {
    std::vector<TokenWeights::Entry> entries;
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] > 0) entries.push_back({tokens_[i], from[i]});
    }
    return entries;
  };
  context_.pool().ParallelFor(static_cast<int64_t>(heads_),
                              [&](int64_t h, int) {
                                sums.totals[h].Add(runs_[h].totals);
                                sums.queries[h].Add(weights(runs_[h].queries));
                                sums.keys[h].Add(weights(runs_[h].keys));
                              });
  for (int64_t b = 0; b < Sequences(); ++b) {
    std::vector<float> strengths;
    for (const HeadRun& run : runs_) strengths.push_back(run.strengths[b]);
    sums.AddSequence(first + b, windows_[b].key, windows_[b].source.ids,
                     std::move(strengths));
  }
}

}  // namespace headwise
