# Cross-compiles for HK_ZIG_TARGET, such as x86_64-linux-musl or x86_64-linux-gnu.2.17, by HK_ZIG, the compiler of
# PyPI's package ziglang: clang, with the headers and libraries of every musl and glibc, and libc++.
if(NOT HK_ZIG)
  file(GLOB HK_ZIG "${CMAKE_CURRENT_LIST_DIR}/../build/venv/lib/python3*/site-packages/ziglang/zig")
  if(NOT HK_ZIG)
    find_program(HK_ZIG zig)
  endif()
  if(NOT HK_ZIG)
    message(FATAL_ERROR "no zig: tools/bootstrap.sh musl installs it")
  endif()
endif()
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX REPLACE "-.*" "" CMAKE_SYSTEM_PROCESSOR "${HK_ZIG_TARGET}")
if(HK_ZIG_TARGET MATCHES "musl$")
  # Beside the libraries for glibc, in a folder of musl's.
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_SYSTEM_PROCESSOR}-linux-musl CACHE PATH "Where the libraries are installed")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HK_ZIG HK_ZIG_TARGET)
set(CMAKE_C_COMPILER "${HK_ZIG}" cc -target ${HK_ZIG_TARGET})
set(CMAKE_CXX_COMPILER "${HK_ZIG}" c++ -target ${HK_ZIG_TARGET})
# zig adds UndefinedBehaviorSanitizer's traps to every build without optimisation.
set(CMAKE_C_FLAGS_INIT -fno-sanitize=undefined)
set(CMAKE_CXX_FLAGS_INIT -fno-sanitize=undefined)
set(HK_CCACHE "" CACHE INTERNAL "ccache takes `cc` for a source; zig has a cache of its own")
# CMake calls these two without an argument before theirs.
foreach(tool IN ITEMS ar ranlib)
  set(script "${CMAKE_BINARY_DIR}/zig-${tool}")
  file(WRITE "${script}" "#!/bin/sh\nexec '${HK_ZIG}' ${tool} \"$@\"\n")
  file(CHMOD "${script}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  string(TOUPPER "CMAKE_${tool}" variable)
  set(${variable} "${script}" CACHE FILEPATH "" FORCE)
endforeach()
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64" AND NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
endif()

# The compiler's runtime library has a memcpy and a memset, and the linker prefers them to those of the C library, which
# are made for the processor at hand. So shared libraries get no runtime. cmake/udivti3.c is the one function of it that
# they call.
set(object "${CMAKE_BINARY_DIR}/zig-udivti3.o")
execute_process(
  COMMAND ${CMAKE_C_COMPILER} -O2 -g0 -fPIC -fvisibility=hidden -c "${CMAKE_CURRENT_LIST_DIR}/udivti3.c" -o "${object}"
          COMMAND_ERROR_IS_FATAL ANY
)
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-rtlib=none")
set(CMAKE_C_STANDARD_LIBRARIES "${object}")
