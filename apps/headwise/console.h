// What standard output is: how wide, and whether it takes colour.
#pragma once

namespace headwise {

struct Console {
  int width = 80;      // columns: of the terminal, else $COLUMNS, else 80
  bool color = false;  // only on a terminal and never with NO_COLOR
};

Console StdoutConsole();

}  // namespace headwise
