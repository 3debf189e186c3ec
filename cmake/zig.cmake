# Cross-compiles for HK_ZIG_TARGET, such as x86_64-linux-gnu.2.17, by HK_ZIG, the compiler of PyPI's package ziglang:
# clang, with the headers and symbol versions of every glibc, and of musl. tools/build_wheel.py sets both.
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${HK_ZIG_TARGET}")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HK_ZIG HK_ZIG_TARGET)
set(CMAKE_C_COMPILER "${HK_ZIG}" cc -target ${HK_ZIG_TARGET})
set(CMAKE_CXX_COMPILER "${HK_ZIG}" c++ -target ${HK_ZIG_TARGET})
set(HK_CCACHE "" CACHE INTERNAL "ccache takes the word `cc` for a source; zig has a cache of its own")

# CMake starts these two without a word before their arguments.
foreach(tool IN ITEMS ar ranlib)
  set(script "${CMAKE_BINARY_DIR}/zig-${tool}")
  file(WRITE "${script}" "#!/bin/sh\nexec '${HK_ZIG}' ${tool} \"$@\"\n")
  file(CHMOD "${script}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  string(TOUPPER "CMAKE_${tool}" variable)
  set(${variable} "${script}" CACHE FILEPATH "The compiler's own ${tool}" FORCE)
endforeach()

# The compiler's runtime library has a memcpy and a memset, slower than those of the C library, and the linker prefers
# them. So the runtime stays out, and the one function of it that the libraries call is cmake/udivti3.c.
set(object "${CMAKE_BINARY_DIR}/zig-udivti3.o")
execute_process(
  COMMAND ${CMAKE_C_COMPILER} -O2 -g0 -fPIC -fvisibility=hidden -c "${CMAKE_CURRENT_LIST_DIR}/udivti3.c" -o "${object}"
          COMMAND_ERROR_IS_FATAL ANY
)
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-rtlib=none")
set(CMAKE_C_STANDARD_LIBRARIES "${object}")
