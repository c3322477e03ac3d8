// The open block beside the whole ones. Door: window_blocks.h.
#include "headwise/heads/profile/window_blocks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headwise/error.h"

namespace headwise {
namespace {

// What the profile holds of windows now.
WindowSums SumsOf(const Profile& profile) {
  WindowSums sums;
  for (const auto& [name, tallies] : profile.metrics) {
    if (!IsOfModel(name)) sums.metrics[name] = tallies;
  }
  sums.histograms = profile.histograms;
  return sums;
}

// In place: observers hold on to where tallies are.
void Clear(Profile& profile) {
  for (auto& [name, tallies] : profile.metrics) {
    if (!IsOfModel(name)) std::fill(tallies.begin(), tallies.end(), Tally());
  }
  for (std::vector<double>& histogram : profile.histograms) {
    std::fill(histogram.begin(), histogram.end(), 0.0);
  }
}

void EraseEmpty(std::map<std::string, std::vector<Tally>>& metrics) {
  std::erase_if(metrics, [](const auto& metric) {
    return std::all_of(metric.second.begin(), metric.second.end(),
                       [](const Tally& tally) { return tally.empty(); });
  });
}

}  // namespace

WindowSums TakeSums(Profile& profile) {
  WindowSums sums = SumsOf(profile);
  Clear(profile);
  return sums;
}

void AddSums(const WindowSums& sums, Profile& profile) {
  for (const auto& [name, theirs] : sums.metrics) {
    std::vector<Tally>& ours = profile.Tallies(name);
    for (size_t h = 0; h < theirs.size(); ++h) ours[h].Merge(theirs[h]);
  }
  for (size_t h = 0; h < sums.histograms.size(); ++h) {
    for (size_t b = 0; b < sums.histograms[h].size(); ++b) {
      profile.histograms[h][b] += sums.histograms[h][b];
    }
  }
}

void WindowBlocks::Resume(Profile& profile) {
  std::optional<BlockSums> sums = std::exchange(profile.blocks, {});
  if (!sums) {
    if (profile.counts.windows == 0) return;
    throw Error(ErrorCode::kInvalidArgument,
                {"resume",
                 "a profile that was interrupted, with the sums of its open "
                 "block of windows",
                 "one without",
                 "a finished or merged profile, or one of an earlier "
                 "version, cannot go on: begin it anew"});
  }
  whole_ = std::move(sums->whole);
  for (const auto* part : {&whole_, &sums->open}) {
    for (const auto& [name, tallies] : part->metrics) {
      profile.Tallies(name).assign(tallies.size(), Tally());
    }
  }
  for (std::vector<double>& histogram : profile.histograms) {
    std::fill(histogram.begin(), histogram.end(), 0.0);
  }
  AddSums(sums->open, profile);
}

void WindowBlocks::Total(Profile& profile) const {
  profile.blocks.emplace();
  profile.blocks->open = SumsOf(profile);
  profile.blocks->whole = whole_;
  AddSums(whole_, profile);
  EraseEmpty(profile.metrics);
  EraseEmpty(profile.blocks->open.metrics);
  EraseEmpty(profile.blocks->whole.metrics);
}

}  // namespace headwise
