// Windows of a text on their way to the model: they wait until it is known
// which of the text's tokens are rare.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "headwise/heads/profile/notes.h"
#include "headwise/model/config.h"
#include "headwise/runtime/windows.h"

namespace headwise {

class WindowQueue {
 public:
  // sentences: each is a window of its own; counts: whether frequencies are
  // asked for at all. What is borrowed must outlive it.
  WindowQueue(const ModelConfig& config, const TokenTable& table,
              bool sentences, bool counts);

  // Text whose frequencies are counted by themselves begins here.
  void BeginCorpus();
  // Throws Error(kInvalidArgument) for what the model cannot read.
  void Add(TokenWindow window);
  // Whether enough tokens are known to say which are rare; nothing: of all
  // text, else of so many tokens that are still to be run.
  bool IsReady(std::optional<int64_t> most) const;

  // Ends counting; the windows that wait, until Clear.
  std::span<const TokenWindow> Take();
  void Clear() { waiting_.clear(); }
  const TokenCounts& counts() const { return counts_; }
  // The size of the windows that wait.
  struct Size {
    int64_t longest = 0, all = 0;  // tokens of a side
  };
  Size size() const;

 private:
  const ModelConfig& config_;
  const TokenTable& table_;
  bool sentences_, needs_counts_;
  std::vector<TokenWindow> waiting_;
  TokenCounts counts_;
  int64_t counted_ = 0;
  bool counting_ = true;
};

}  // namespace headwise
