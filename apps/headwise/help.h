// How --help is laid out: within the terminal's width, with defaults and what
// is required in words. Called once, by main.cc.
#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}  // namespace CLI

namespace headwise {

// For all commands; `width`: columns of the terminal.
std::shared_ptr<CLI::FormatterBase> HelpFormatter(int width);

}  // namespace headwise
