// The state of a Transformer, for the files of this folder.
#pragma once

#include <memory>
#include <string>

#include "headwise/api/interventions.h"
#include "headwise/base/one_caller.h"
#include "headwise/context.h"
#include "headwise/dist/group.h"
#include "headwise/head_ref.h"
#include "headwise/model.h"
#include "headwise/model/checkpoint.h"
#include "headwise/model_info.h"
#include "headwise/progress.h"

namespace headwise {

struct Transformer::State {
  State(const std::filesystem::path& folder, const OpenOptions& asked,
        DType type);

  const Model& model() const { return checkpoint.model(); }
  // Whether this process is the one that results are of.
  bool is_first() const { return group == nullptr || group->is_first(); }

  OpenOptions options;
  Context context;
  Checkpoint checkpoint;
  ModelInfo info;
  std::shared_ptr<Interventions> interventions;
  dist::Group* group = nullptr;  // ShareWork's
};

// A call that uses a model, from its beginning to its end: a second thread's is
// an error and not wrong numbers. Calls of it may use the model in turn.
class ModelUse {
 public:
  // Throws Error(kInvalidArgument) while another thread's call is on.
  explicit ModelUse(Transformer::State& state)
      : caller_(state.interventions->thread(), kRule) {
    if (caller_.is_first()) state.interventions->DropRemoved();
  }
  explicit ModelUse(Transformer& model) : ModelUse(model.state()) {}

 private:
  static constexpr OneCaller::Rule kRule = {
      "Transformer",
      "open one for each thread: those of one folder share its weights"};
  OneCaller caller_;
};

// Options of the Context that a model runs in.
ContextOptions ContextFor(const OpenOptions& options);

// Throws unless the model is as its folder says. where: the work, for the
// message.
void RequireWhole(const Transformer& model, const char* where);

// Throws Error(kInvalidArgument) for a head that the model does not have.
void RequireHead(const Transformer& model, const HeadRef& head);

// The type that a model computes in on a device. Throws Error(kInvalidArgument)
// for a type that the device does not.
DType ComputeType(Device device, const std::optional<DType>& asked);

}  // namespace headwise
