// Filling masks. Door: fill.h.
#include "headwise/runtime/fill.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "headwise/error.h"
#include "headwise/model/sequence_pass.h"
#include "headwise/ops/copy/copy.h"
#include "headwise/tensor/temp.h"

namespace headwise {
namespace {

std::vector<MaskGuess> Likeliest(std::span<const float> logits, int64_t most) {
  const float top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float z : logits) sum += std::exp(double{z} - top);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto count = static_cast<size_t>(
      std::clamp<int64_t>(most, 0, static_cast<int64_t>(order.size())));
  std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(count),
                    order.end(), [&](int32_t a, int32_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b]
                                                    : a < b;
                    });
  std::vector<MaskGuess> guesses;
  for (size_t i = 0; i < count; ++i) {
    guesses.push_back(
        {order[i], std::exp(double{logits[order[i]]} - top) / sum});
  }
  return guesses;
}

}  // namespace

std::optional<int32_t> MaskToken(const Tokenizer& tokenizer) {
  for (const char* name : {"[MASK]", "<mask>"}) {
    if (const auto id = tokenizer.Id(name)) return *id;
  }
  return std::nullopt;
}

std::vector<FilledMask> FillMasks(Context& context, const Model& model,
                                  std::span<const int32_t> ids, int32_t mask,
                                  int64_t most, const HookList& hooks) {
  const ModelConfig& config = model.config();
  if (config.causal || model.decoder() != nullptr || !model.has_head()) {
    throw Error(ErrorCode::kUnsupported,
                {"fill", "an encoder with a masked-word head",
                 config.model_type + (model.has_head() ? "" : " without one"),
                 "causal models continue texts: headwise generate"});
  }
  std::vector<int32_t> places;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == mask) places.push_back(static_cast<int32_t>(i));
  }
  if (places.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                {"fill", "a mask in the text", "none", "write [MASK]"});
  }
  const std::vector<int64_t> lengths = {static_cast<int64_t>(ids.size())};
  const SequenceBatch batch = MakeBatch(lengths);
  const Temp x(context, model.type(), {lengths[0], config.width});
  SequencePass(model, {.ids = ids, .batch = &batch, .hooks = hooks})
      .Forward(context, x.view());
  const auto count = static_cast<int64_t>(places.size());
  const Temp masked(context, model.type(), {count, config.width});
  Temp numbers;
  GatherRows(context, x.view(), OnDevice(context, ViewOf(places), numbers),
             masked.view());
  const Temp logits(context, model.type(), {count, config.vocabulary});
  model.Logits(context, masked.view(), logits.view());
  const std::vector<float> z = ToVector<float>(context, logits.view());
  std::vector<FilledMask> filled;
  for (int64_t i = 0; i < count; ++i) {
    const auto vocabulary = static_cast<size_t>(config.vocabulary);
    filled.push_back(
        {places[i],
         Likeliest(std::span(z).subspan(static_cast<size_t>(i) * vocabulary,
                                        vocabulary),
                   most)});
  }
  return filled;
}

}  // namespace headwise
