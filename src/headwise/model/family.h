// The families of models: how each names its configuration and weights. One
// file each under family/, and a line each of family/list.h.
// docs/adding-a-family.md is the how-to.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "headwise/model/config.h"
#include "headwise/model/family/list.h"
#include "headwise/model/model.h"
#include "headwise/model/weights.h"

namespace headwise {

struct Family {
  const char* name = "";
  std::vector<std::string> model_types;  // of config.json
  ModelConfig (*read_config)(const ConfigReader& reader) = nullptr;
  Model::Parts (*build)(const ModelConfig& config,
                        const WeightSource& weights) = nullptr;
  // Parts of the names of tensors that other uses of the model read, and of
  // tables that are computed: nobody is told that they are not read.
  std::vector<std::string> passes_over = {};
  // The architecture of llama.cpp's files whose tensors these models have;
  // null: export writes none.
  const char* gguf = nullptr;
  // The quant_method of "quantization_config" that its models may have, whose
  // blocks `build` reads; null: none.
  const char* quantization = nullptr;
  // Whether transformers reads the number of heads and their width apart, so
  // that it runs layers of fewer heads; else heads are width / heads wide.
  bool stock_head_dim = false;
  // Whether transformers has a bias behind the heads, by this configuration;
  // null: it has one, or "attention_bias" says so.
  bool (*stock_output_bias)(const ModelConfig& config) = nullptr;
};

#define HEADWISE_DECLARE_FAMILY(family) extern const Family family;
HEADWISE_FAMILIES(HEADWISE_DECLARE_FAMILY)
#undef HEADWISE_DECLARE_FAMILY

// Throws Error(kUnsupported) listing the known types.
const Family& FindFamily(const std::string& model_type);

// Sets model_type and family besides what the family reads.
ModelConfig ReadConfig(const Json& json, const std::string& file);

// What `weights` hold besides is named by Model::unread, but for what the
// family is known to do without. `weights` is kept alive by the model; type:
// what it computes in.
std::unique_ptr<Model> BuildModel(const ModelConfig& config,
                                  std::shared_ptr<const WeightSource> weights,
                                  DType type = DType::kF32);

}  // namespace headwise
