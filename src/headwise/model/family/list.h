// The families of models, one line each; what a Family is: ../family.h. Errors
// name the model_types in this order.
#pragma once

#define HEADWISE_FAMILIES(FAMILY) \
  FAMILY(kGpt2Family)             \
  FAMILY(kBertFamily)             \
  FAMILY(kLlamaFamily)            \
  FAMILY(kMarianFamily)           \
  FAMILY(kGptNeoxFamily)          \
  FAMILY(kGemmaFamily)            \
  FAMILY(kPhi3Family)             \
  FAMILY(kOlmoFamily)             \
  FAMILY(kStarcoder2Family)       \
  FAMILY(kStablelmFamily)         \
  FAMILY(kSmollm3Family)          \
  FAMILY(kMixturesFamily)         \
  FAMILY(kGptOssFamily)           \
  FAMILY(kGraniteFamily)          \
  FAMILY(kCohereFamily)           \
  FAMILY(kGemma4Family)           \
  FAMILY(kGptJFamily)             \
  FAMILY(kGptNeoFamily)           \
  FAMILY(kOptFamily)              \
  FAMILY(kBloomFamily)            \
  FAMILY(kPhiFamily)              \
  FAMILY(kDeepseekFamily)         \
  FAMILY(kElectraFamily)          \
  FAMILY(kModernBertFamily)       \
  FAMILY(kAlbertFamily)           \
  FAMILY(kMpnetFamily)            \
  FAMILY(kT5Family)               \
  FAMILY(kBartFamily)
