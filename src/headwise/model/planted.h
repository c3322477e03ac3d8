// A model whose heads are set by construction, so that what an analysis says
// of it can be checked: two causal layers of eight heads in GPT-2's layout.
// assets/planted holds it; tools/make_planted.cc writes it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace headwise {

// How removing the head changes the loss on text.
enum class PlantedEffect : uint8_t {
  kNone,     // it writes zeros
  kSlight,   // it writes where nothing reads; only the norm feels it
  kHelpful,  // the loss rises
  kHarmful,  // the loss falls
};

struct PlantedHead {
  int64_t layer = 0;
  int64_t head = 0;
  const char* role = "";  // as roles are called; "" for none
  PlantedEffect effect = PlantedEffect::kSlight;
  const char* note = "";
};

// The truth, by layer and head.
std::span<const PlantedHead> PlantedTruth();

// Heads that are equal in every weight.
struct PlantedTwins {
  int64_t layer, first, second;
};
inline constexpr PlantedTwins kPlantedTwins = {0, 1, 2};

// Writes config.json, tokenizer.json and model.safetensors into `folder`, which
// must exist. The vocabulary and the frequencies of its tokens are learned
// from `text`; all else is arithmetic, so the bytes are the same everywhere.
void WritePlantedModel(const std::filesystem::path& text,
                       const std::filesystem::path& folder);

}  // namespace headwise
