// Whether there is memory for a piece of work, asked before it is begun: it
// might be killed without a word, or fail when much of it is done. What is
// counted is what the work cannot do without; what is refused would not fit.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/model/model.h"

namespace headwise {

// Bytes that work takes besides what lies in memory already.
struct RoomNeeds {
  double weights = 0;  // of the model; in training, what is kept of each
  double run = 0;      // activations and caches
  double all() const { return weights + run; }
};

// Numbers of one forward pass of so many tokens at its widest: the residual
// stream, its norm and the columns of the widest half of a layer.
double PassNumbers(const ModelConfig& config, int64_t tokens);
// Numbers that a pass keeps for its backward; recompute: of one layer at a
// time, and what the others began with.
double KeptNumbers(const ModelConfig& config, int64_t tokens, bool recompute);
// Numbers of a layer's call that hooks keep (RunHooks::KeepCall), at its
// widest: queries, keys and values.
double CallNumbers(const ModelConfig& config, int64_t tokens);

// A forward pass on the context's device in the model's type. Weights that are
// there already cost nothing.
RoomNeeds ForwardNeeds(const Context& context, const Model& model,
                       int64_t tokens);
// The same of a prompt, with keys and values kept of `tokens` in all.
RoomNeeds GenerateNeeds(const Context& context, const Model& model,
                        int64_t prompt, int64_t tokens);
// A training pass of so many tokens and what each of `parameters` numbers still
// lacks of its gradient and its two moments, all in f32: `missing` of the
// three.
struct TrainingSize {
  int64_t tokens = 0;
  int64_t parameters = 0;
  int missing = 3;
  bool recompute = false;
};
RoomNeeds TrainingNeeds(const ModelConfig& config, DType type,
                        const TrainingSize& size);

// All throw Error(kOutOfMemory) saying what is needed, what is free and what
// takes less.

// On a device with so many bytes free.
void RequireRoom(Device device, const RoomNeeds& needs, double free);
// On the context's device; the host is not asked.
void RequireRoom(Context& context, const RoomNeeds& needs);
// A forward pass of so many tokens at once, on the host too.
void RequireRoom(Context& context, const Model& model, int64_t tokens);

}  // namespace headwise
