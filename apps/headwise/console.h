// What standard output is: how wide, and whether it takes colour.
#pragma once

#include "headwise/report/text.h"

namespace headwise {

// The terminal's width, else $COLUMNS, else 80. Colour only on a terminal and
// never with NO_COLOR.
Console StdoutConsole();

}  // namespace headwise
