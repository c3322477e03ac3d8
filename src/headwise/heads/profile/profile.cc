// Adding up and merging. Door: profile.h; the file is in profile_file.cc.
#include "headwise/heads/profile/profile.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "headwise/error.h"
#include "headwise/head_ref.h"
#include "headwise/heads/profile/metrics.h"
#include "headwise/observation.h"

namespace headwise {
namespace {

void RequireEqual(const char* what, const std::string& ours,
                  const std::string& theirs) {
  if (ours == theirs) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      {"merge", std::string("profiles of the same ") + what + ", " + ours,
       theirs, "make both with the same model and settings"});
}

}  // namespace

void TrimExamples(std::vector<Example>& examples) {
  const auto order = [](const Example& a, const Example& b) {
    return std::tie(a.kind, b.score, a.hash) <
           std::tie(b.kind, a.score, b.hash);
  };
  std::sort(examples.begin(), examples.end(), order);
  std::vector<Example> kept;
  size_t of_kind = 0;
  for (Example& example : examples) {
    const bool same = !kept.empty() && kept.back().kind == example.kind;
    of_kind = same ? of_kind + 1 : 1;
    // The same row twice: the same text stood in the corpus twice.
    if (same && kept.back().hash == example.hash) {
      --of_kind;
      continue;
    }
    if (of_kind <= kExamplesPerKind) kept.push_back(std::move(example));
  }
  examples = std::move(kept);
}

Profile::Profile(std::vector<HeadRef> all) : heads(std::move(all)) {
  histograms.assign(heads.size(), std::vector<double>(kHistogramBuckets, 0.0));
  sinks.resize(heads.size());
  examples.resize(heads.size());
}

std::vector<Tally>& Profile::Tallies(std::string_view metric) {
  std::vector<Tally>& tallies = metrics[std::string(metric)];
  tallies.resize(heads.size());
  return tallies;
}

const Tally* Profile::Find(std::string_view metric, size_t head) const {
  const auto found = metrics.find(std::string(metric));
  if (found == metrics.end() || found->second[head].empty()) return nullptr;
  return &found->second[head];
}

Estimate Profile::Get(std::string_view metric, size_t head) const {
  const Tally* tally = Find(metric, head);
  if (tally == nullptr) return Tally{}.Ratio();
  const Bounds bounds = BoundsOf(metric);
  return tally->Ratio(bounds.low, bounds.high);
}

int64_t Profile::IndexOf(const HeadRef& head) const {
  const auto found = std::find(heads.begin(), heads.end(), head);
  return found == heads.end() ? -1 : found - heads.begin();
}

// By tokens; where one has none both have none.
void Profile::MergeMeans(const Profile& other) {
  if (mean_outputs.size() != other.mean_outputs.size()) mean_outputs.clear();
  const auto ours = static_cast<double>(counts.tokens);
  const auto theirs = static_cast<double>(other.counts.tokens);
  for (size_t h = 0; h < mean_outputs.size(); ++h) {
    if (mean_outputs[h].size() != other.mean_outputs[h].size()) {
      return mean_outputs.clear();
    }
    for (size_t i = 0; i < mean_outputs[h].size() && ours + theirs > 0; ++i) {
      mean_outputs[h][i] =
          (ours * mean_outputs[h][i] + theirs * other.mean_outputs[h][i]) /
          (ours + theirs);
    }
  }
}

void Profile::Merge(const Profile& other) {
  RequireEqual("model", model_hash, other.model_hash);
  RequireEqual("`metrics`", Name(settings.metrics),
               Name(other.settings.metrics));
  RequireEqual("context", std::to_string(settings.context),
               std::to_string(other.settings.context));
  RequireEqual("`min_visible`", std::to_string(settings.min_visible),
               std::to_string(other.settings.min_visible));
  RequireEqual("number of repeats", std::to_string(settings.repeats),
               std::to_string(other.settings.repeats));
  RequireEqual("kind of sequence", settings.sentences ? "sentences" : "windows",
               other.settings.sentences ? "sentences" : "windows");
  if (settings.bos && other.settings.bos) {
    RequireEqual("begin of windows (the id of its token, -1: none)",
                 std::to_string(*settings.bos),
                 std::to_string(*other.settings.bos));
  } else if (!settings.bos) {
    settings.bos = other.settings.bos;
  }
  if (heads != other.heads) {
    throw Error(ErrorCode::kInvalidArgument,
                {"merge", std::to_string(heads.size()) + " equal heads",
                 std::to_string(other.heads.size()) + " of another model",
                 "make both with the same model"});
  }
  MergeMeans(other);
  counts.documents += other.counts.documents;
  counts.windows += other.counts.windows;
  counts.tokens += other.counts.tokens;
  counts.text_key += other.counts.text_key;
  for (const auto& [name, theirs] : other.metrics) {
    std::vector<Tally>& ours = Tallies(name);
    for (size_t h = 0; h < heads.size(); ++h) {
      if (!IsOfModel(name)) {
        ours[h].Merge(theirs[h]);
      } else if (ours[h].n < theirs[h].n) {
        ours[h] = theirs[h];
      }
    }
  }
  for (const auto& [name, tally] : other.baselines) {
    baselines[name].Merge(tally);
  }
  for (size_t h = 0; h < heads.size(); ++h) {
    for (size_t b = 0; b < histograms[h].size(); ++b) {
      histograms[h][b] += other.histograms[h][b];
    }
    for (const auto& [token, count] : other.sinks[h]) sinks[h][token] += count;
    examples[h].insert(examples[h].end(), other.examples[h].begin(),
                       other.examples[h].end());
    TrimExamples(examples[h]);
  }
}

const char* Name(MetricSet set) {
  return set == MetricSet::kAll ? "all" : "core";
}

bool IsOfModel(std::string_view metric) {
  return metric.starts_with("repeats") || metric.starts_with("copying") ||
         metric.starts_with("retrieval");
}

std::string OffsetMetric(int offset) {
  switch (offset) {
    case -1:
      return "previous";
    case 0:
      return "self";
    case 1:
      return "next";
    default:
      return "offset." + std::to_string(offset);
  }
}

}  // namespace headwise
