// The families of models, one line each; what a Family is: ../family.h. Errors
// name the model_types in this order.
#pragma once

#define HEADWISE_FAMILIES(FAMILY) \
  FAMILY(kGpt2Family)             \
  FAMILY(kBertFamily)             \
  FAMILY(kLlamaFamily)            \
  FAMILY(kMarianFamily)           \
  FAMILY(kGptNeoxFamily)          \
  FAMILY(kT5Family)               \
  FAMILY(kBartFamily)
