// Rotary positions as config.json says them: rope_scaling and rope_theta of
// transformers 4, rope_parameters of transformers 5, and what single families
// call their numbers. What is not computed is refused by its name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/ops/rope/rope.h"

namespace headwise {

// What a family calls its numbers beside rope_parameters and rope_scaling, and
// what transformers takes where they are absent.
struct RopeKeys {
  const char* base = "rope_theta";              // GPT-NeoX: rotary_emb_base
  const char* share = "partial_rotary_factor";  // GPT-NeoX: rotary_pct
  const char* dims = nullptr;                   // GPT-J: rotary_dim, no share
  double other_base = 10000;
  double other_share = 1;
  int64_t other_dims = 0;  // 0: all
  // Whether transformers obeys the share; if not, only proportional positions
  // have one, and any other is refused.
  bool shares = true;
  // What transformers takes for original_max_position_embeddings where the
  // model says none; 0: what stands beside the factors, or the model's
  // positions.
  int64_t other_original = 0;
  // Whether transformers takes "su" and "yarn" for longrope, and knows no other
  // scaling.
  bool longrope_alone = false;
  // Whether rope_scaling is for these layers, where kinds of layers differ.
  bool old_scaling = true;
  RopePairs pairs = RopePairs::kHalves;
};

// max_position_embeddings, or Llama's default.
int64_t ReadContext(const ConfigReader& reader);

RopeConfig ReadRope(const ConfigReader& reader, int64_t head_dim,
                    const RopeKeys& keys = {});

// Layers of one kind, as "layer_types" names it. Its rope_parameters stand
// under that name; before transformers 5 it had a base of its own, such as
// Gemma 3's rope_local_base_freq.
struct RopeKind {
  const char* layers = "";  // "sliding_attention"
  int64_t head_dim = 0;
  RopeKeys keys = {};
};

// One for each kind, in their order: ModelConfig::ropes.
std::vector<RopeConfig> ReadRopes(const ConfigReader& reader,
                                  std::span<const RopeKind> kinds);

}  // namespace headwise
