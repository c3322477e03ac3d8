// How calls that take long tell how far they are, and what makes their
// results worse than they look.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>

#include "headwise/fields.h"

namespace headwise {

/// Called by the thread that works, often: what is done ("profile"), how much,
/// and of how much in all (0: not known). It must not throw.
using OnProgress =
    std::function<void(std::string_view stage, double done, double total)>;

/// Called with a warning about coming results: when a model is opened,
/// "[weights] expected nothing but the model's tensors; found 2 …",
/// "[`weight_memory`] expected 0.9 GiB …"; once for
/// each text that is read and before it is run, "[context] expected at most 512
/// tokens at once, …", "[text] expected letters that the tokenizer knows; …".
/// Called by the thread that works.
using OnNotice = std::function<void(std::string_view notice)>;

/// Where work keeps what it has, so that it goes on after a stop or a kill.
struct PartialWork {
  /// Leaves when the work is whole; nothing: nothing is kept.
  std::optional<std::filesystem::path> file = {};
  double checkpoint_seconds = 60;  ///< between copies; 0: only when stopped
  /// Go on with that file, of the same model, text and job: the result is that
  /// of an uninterrupted run, bit for bit.
  bool resume = false;

  template <typename Self, typename Visit>
  static void VisitFields(Self& self, Visit&& visit) {
    visit("partial", self.file,
          "file in which work that is stopped or killed keeps what it has");
    visit("checkpoint_seconds", self.checkpoint_seconds,
          "seconds between copies of what it has; 0: only when stopped",
          AtLeast(0));
    visit("resume", self.resume,
          "go on with interrupted work of the same model, text and settings");
  }
};

}  // namespace headwise
