// Heads made to go away: columns of W_Q, W_K, W_V and rows of W_O leave the
// weights, in the type in which they are stored. What is left is a checkpoint
// like any other, whose layers differ in their numbers of heads.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "headwise/base/atomic_folder.h"
#include "headwise/base/json.h"
#include "headwise/heads/importance/variants.h"
#include "headwise/model/head_ref.h"
#include "headwise/tensor.h"

namespace headwise {

// By the checkpoint's names: tensors that replace its own, or join them.
using ChangedTensors = std::map<std::string, Tensor>;

// The weights and biases of every attention layer that loses heads. `removed`
// as RequireRemovable takes it.
ChangedTensors RemoveHeads(const Model& model,
                           std::span<const HeadRef> removed);

// config.json with the counts of heads that are left, layer by layer; the same
// where none leaves.
Json ConfigWithout(Json config, const Model& model,
                   std::span<const HeadRef> removed);

// Repair by folding: what the removed heads add on average joins the bias of
// the output, which is made where there is none, in f32. means: f32
// [1, heads, E] on the host, by site.
void FoldMeans(const Model& model, std::span<const HeadRef> removed,
               const HeadOutputs& means, ChangedTensors& changed);

enum class Replace : uint8_t { kRefused, kAllowed };
// What WriteChanged(from, folder) would refuse, before the work: throws
// Error(kInvalidArgument) where `folder` exists and may not be replaced, where
// it holds the model or a file that no model has, and for links of the model
// that are not followed (model_files.h); Error(kIo) where it could not be made
// or is being written. Nothing for "".
void RequireNewFolder(const std::filesystem::path& folder, Replace replace,
                      const std::filesystem::path& from);

// What WriteChanged would write, as a model in memory that computes in `type`.
std::unique_ptr<Model> ChangedModel(const std::filesystem::path& from,
                                    ChangedTensors changed, const Json& config,
                                    DType type = DType::kF32);

// Copies a model's folder with these tensors and this configuration: whole, or
// not at all (atomic_folder.h). With nothing changed every file is the same
// byte for byte; what is no part of a model (folders, other weights, files of
// other names than model_files.h has) stays behind. Throws as RequireNewFolder
// does.
void WriteChanged(const std::filesystem::path& from,
                  const std::filesystem::path& to,
                  const ChangedTensors& changed, const Json& config,
                  Replace replace = Replace::kRefused);

// The same before it is put in its place: a model to work with that goes with
// its holder. Nobody else may write `to` for so long.
std::unique_ptr<AtomicFolder> WriteBeside(const std::filesystem::path& from,
                                          const std::filesystem::path& to,
                                          const ChangedTensors& changed,
                                          const Json& config, Replace replace);

}  // namespace headwise
