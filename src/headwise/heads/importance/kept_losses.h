// What a ranking has computed so far: losses by stage, way of closing heads
// and sequence. A ranking that was interrupted goes on from a file of them and
// ends with the very numbers of one that was not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "headwise/heads/importance/objective.h"

namespace headwise {

// Sums over sequences, [variants][sequences].
using LossTable = std::vector<std::vector<double>>;

// What the losses are of. All must be the same for them to be of use.
struct LossesKey {
  std::string model;     // its hash
  std::string text;      // of the examples' tokens
  std::string settings;  // seeds, masks, batches

  bool operator==(const LossesKey&) const = default;
};

class KeptLosses {
 public:
  KeptLosses() = default;
  explicit KeptLosses(LossesKey key) : key_(std::move(key)) {}

  // Throws Error: kNotFound, kIo, kCorrupt.
  static KeptLosses Load(const std::filesystem::path& path);
  // Whole or not at all.
  void Save(const std::filesystem::path& path) const;

  const LossesKey& key() const { return key_; }

  // The losses of a stage, NaN where they are not known. A stage of another
  // shape is begun anew.
  LossTable& Stage(const std::string& name, size_t variants, size_t sequences);

  // Share of what the stages so far hold that is known.
  double Done() const;

 private:
  LossesKey key_;
  std::map<std::string, LossTable> stages_;
};

// A name for a text: the examples' tokens, in order.
std::string TextKey(std::span<const TextExample> examples);

}  // namespace headwise
