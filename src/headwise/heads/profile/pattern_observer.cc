// Labels through the operator, four detectors at a time. Door:
// pattern_observer.h.
#include "headwise/heads/profile/pattern_observer.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <utility>

#include "headwise/error.h"
#include "headwise/head_ref.h"
#include "headwise/heads/profile/host_result.h"
#include "headwise/observation.h"

namespace headwise {
namespace {

std::string MetricOf(const Detector& detector) {
  return "pattern." + detector.name();
}

}  // namespace

PatternObserver::PatternObserver(Context& context, Profile& profile,
                                 std::span<Detector> detectors,
                                 int64_t min_visible)
    : context_(context),
      profile_(profile),
      detectors_(detectors),
      min_visible_(min_visible) {
  std::set<std::string> names;
  for (const Detector& detector : detectors) {
    if (!names.insert(detector.name()).second) {
      throw Error(ErrorCode::kInvalidArgument,
                  {"patterns", "a name for each pattern",
                   "\"" + detector.name() + "\" twice", ""});
    }
    profile.Tallies(MetricOf(detector));
    profile.Tallies(MetricOf(detector) + ".chance");
  }
  for (size_t i = 0; i < profile.heads.size(); ++i) {
    if (profile.heads[i].kind != AttentionKind::kSelf) continue;
    first_head_.try_emplace(profile.heads[i].layer, i);
  }
}

void PatternObserver::Begin(std::span<const TokenWindow> windows,
                            std::span<const SequenceNotes> sequences) {
  sequences_ = sequences;
  seen_.clear();
  labels_.assign(detectors_.size(), {});
  for (size_t d = 0; d < detectors_.size(); ++d) {
    for (const TokenWindow& window : windows) {
      std::vector<int32_t> queries, keys;
      detectors_[d].Label(window, queries, keys);
      labels_[d].queries.insert(labels_[d].queries.end(), queries.begin(),
                                queries.end());
      labels_[d].keys.insert(labels_[d].keys.end(), keys.begin(), keys.end());
    }
  }
}

const PatternObserver::Seen& PatternObserver::SeenUnder(
    const AttentionMask& mask) {
  for (const Seen& seen : seen_) {
    if (seen.mask == mask) return seen;
  }
  Seen made{mask,
            MakeSiteNotes(context_, sequences_, SiteSide::kSource, mask,
                          min_visible_),
            {}};
  for (const Labels& labels : labels_) {
    made.targets.push_back(CountTargets(made.notes, labels));
  }
  seen_.push_back(std::move(made));
  return seen_.back();
}

std::vector<int32_t> PatternObserver::CountTargets(const SiteNotes& notes,
                                                   const Labels& labels) const {
  std::vector<int32_t> targets(notes.rows.size(), 0);
  for (const SiteNotes::Sequence& s : notes.sequences) {
    std::unordered_map<int32_t, std::vector<int32_t>> keys;  // by label
    for (int64_t j = 0; j < s.keys; ++j) {
      const int32_t label = labels.keys[s.key_begin + j];
      if (label >= 0) keys[label].push_back(static_cast<int32_t>(j));
    }
    for (int64_t t = s.query_begin; t < s.query_begin + s.queries; ++t) {
      const SiteNotes::Row& row = notes.rows[t];
      const auto found = keys.find(labels.queries[t]);
      if (!row.counted || found == keys.end()) continue;
      const std::vector<int32_t>& at = found->second;
      targets[t] = static_cast<int32_t>(
          std::lower_bound(at.begin(), at.end(), row.high) -
          std::lower_bound(at.begin(), at.end(), row.low));
    }
  }
  return targets;
}

void PatternObserver::AfterAttention(const AttentionSite& site,
                                     const AttentionProblem& problem,
                                     const AttentionArgs& args) {
  if (site.kind != AttentionKind::kSelf) return;
  const Seen& seen = SeenUnder(problem.mask);
  std::vector<size_t> met;  // detectors that have a row to count here
  for (size_t d = 0; d < detectors_.size(); ++d) {
    const std::vector<int32_t>& targets = seen.targets[d];
    if (std::any_of(targets.begin(), targets.end(),
                    [](int32_t count) { return count > 0; })) {
      met.push_back(d);
    }
  }
  const std::span<const size_t> all = met;
  for (size_t begin = 0; begin < all.size(); begin += kMaxLabelChannels) {
    const size_t count =
        std::min<size_t>(kMaxLabelChannels, all.size() - begin);
    AddGroup(problem, args, seen, all.subspan(begin, count),
             first_head_.at(site.layer));
  }
}

// The forward again for its labels: the output is thrown away.
void PatternObserver::AddGroup(const AttentionProblem& problem,
                               const AttentionArgs& args, const Seen& seen,
                               std::span<const size_t> group, size_t first) {
  const int64_t channels = static_cast<int64_t>(group.size());
  const int64_t rows = args.q.shape[1], keys = args.k.shape[1];
  const int64_t heads = problem.heads, dim = args.out.shape[3];
  Tensor query_labels(DType::kI32, {channels, 1, rows});
  Tensor key_labels(DType::kI32, {channels, 1, keys});
  for (int64_t c = 0; c < channels; ++c) {
    const Labels& labels = labels_[group[c]];
    std::copy(labels.queries.begin(), labels.queries.end(),
              query_labels.As<int32_t>() + c * rows);
    std::copy(labels.keys.begin(), labels.keys.end(),
              key_labels.As<int32_t>() + c * keys);
  }
  const Temp out(context_, args.out.type, {1, rows, heads, dim});
  HostResult mass(context_, DType::kF32, {1, heads, rows, channels});
  Observation observation;
  Temp query_copy, key_copy;
  observation.query_labels =
      OnDevice(context_, query_labels.view(), query_copy);
  observation.key_labels = OnDevice(context_, key_labels.view(), key_copy);
  observation.rows.label_mass = mass.view();
  AttentionArgs again = args;
  again.out = out.view();
  again.lse = {};
  again.ungated = {};
  again.gates = {};
  again.replacement = {};
  again.observation = &observation;
  AttentionForward(context_, problem, again);
  mass.Fetch(context_);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t c = 0; c < channels; ++c) {
      const float* from = mass.As<float>() + h * rows * channels + c;
      AddHead(seen, group[c],
              {from, static_cast<size_t>((rows - 1) * channels + 1)}, channels,
              first + static_cast<size_t>(h));
    }
  }
}

void PatternObserver::AddHead(const Seen& seen, size_t detector,
                              std::span<const float> mass, int64_t stride,
                              size_t head) {
  const std::string metric = MetricOf(detectors_[detector]);
  for (const SiteNotes::Sequence& s : seen.notes.sequences) {
    double sum = 0, chance = 0, count = 0;
    for (int64_t t = s.query_begin; t < s.query_begin + s.queries; ++t) {
      const int32_t targets = seen.targets[detector][t];
      const float here = mass[t * stride];
      if (targets == 0 || !std::isfinite(here)) continue;
      sum += here;
      chance += static_cast<double>(targets) /
                static_cast<double>(seen.notes.rows[t].visible());
      count += 1;
    }
    profile_.Tallies(metric)[head].Add(sum, count);
    profile_.Tallies(metric + ".chance")[head].Add(chance, count);
  }
}

}  // namespace headwise
