// Door: profile_part.h.
#include "headwise/heads/profile/profile_part.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "headwise/dist/pack.h"

namespace headwise {
namespace {

using dist::Packer;
using dist::Unpacker;

void Put(const Example& example, Packer& to) {
  to.Put(example.kind);
  to.Put(example.score);
  to.Put(example.hash);
  to.Put(example.query);
  to.Put(example.first);
  to.Put(example.tokens.size());
  for (const std::string& token : example.tokens) to.Put(token);
  to.Put(example.keys.size());
  for (const Example::Key& key : example.keys) {
    to.Put(key.position);
    to.Put(key.token);
    to.Put(key.mass);
  }
}

Example GetExample(Unpacker& from) {
  Example example;
  example.kind = from.GetString();
  example.score = from.Get<double>();
  example.hash = from.Get<uint64_t>();
  example.query = from.Get<int64_t>();
  example.first = from.Get<int64_t>();
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    example.tokens.push_back(from.GetString());
  }
  for (auto left = from.Get<size_t>(); left > 0; --left) {
    Example::Key& key = example.keys.emplace_back();
    key.position = from.Get<int64_t>();
    key.token = from.GetString();
    key.mass = from.Get<double>();
  }
  return example;
}

bool IsEmpty(const std::vector<Tally>& tallies) {
  return std::ranges::all_of(tallies, &Tally::empty);
}

}  // namespace

std::string Packed(const Profile& profile, WithExamples examples) {
  Packer to;
  to.Put(profile.counts);
  for (const auto& [name, tallies] : profile.metrics) {
    if (IsEmpty(tallies)) continue;
    to.Put(name);
    to.Put(tallies);
  }
  to.Put(std::string());  // no metric
  for (size_t h = 0; h < profile.heads.size(); ++h) {
    to.Put(profile.histograms[h]);
    to.Put(profile.sinks[h].size());
    for (const auto& [token, count] : profile.sinks[h]) {
      to.Put(token);
      to.Put(count);
    }
    if (examples == WithExamples::kNo) {
      to.Put(size_t{0});
      continue;
    }
    to.Put(profile.examples[h].size());
    for (const Example& example : profile.examples[h]) Put(example, to);
  }
  return to.Take();
}

void AddPacked(std::string_view message, Profile& profile) {
  Unpacker from(message);
  Profile part(profile.heads);
  part.model_hash = profile.model_hash;
  part.settings = profile.settings;
  part.counts = from.Get<ProfileCounts>();
  part.counts.documents = 0;
  for (std::string name = from.GetString(); !name.empty();
       name = from.GetString()) {
    part.metrics[name] = from.GetVector<Tally>();
  }
  for (size_t h = 0; h < part.heads.size(); ++h) {
    part.histograms[h] = from.GetVector<double>();
    for (auto left = from.Get<size_t>(); left > 0; --left) {
      std::string token = from.GetString();
      part.sinks[h][std::move(token)] = from.Get<int64_t>();
    }
    for (auto left = from.Get<size_t>(); left > 0; --left) {
      part.examples[h].push_back(GetExample(from));
    }
  }
  profile.Merge(part);
}

void Clear(Profile& part) {
  part.counts = {};
  for (auto& [name, tallies] : part.metrics) {
    std::ranges::fill(tallies, Tally());
  }
  for (std::vector<double>& histogram : part.histograms) {
    std::ranges::fill(histogram, 0.0);
  }
  for (auto& sinks : part.sinks) sinks.clear();
}

void EraseEmpty(Profile& profile) {
  std::erase_if(profile.metrics,
                [](const auto& metric) { return IsEmpty(metric.second); });
}

}  // namespace headwise
