# Compiler and linker flags, as interface targets: hk_flags for all code, hk_sanitize_flags for code that a sanitizer
# instruments, hk_library_flags for the code of libraries, hk_preload_link_flags for linking the shared ones.
include(CheckLinkerFlag)

set(CMAKE_C_FLAGS_DEBUG "-Og -g")
set(CMAKE_CXX_FLAGS_DEBUG "-Og -g")

add_library(hk_flags INTERFACE)
target_compile_options(
  hk_flags
  INTERFACE # Link-time optimisation does not see the symbols that assembly defines and calls. And the archive has to
            # serve every linker.
            -fno-lto
            -Wall
            -Wextra
            -Wundef
            -Wshadow
            # A project without a build type may hold this one. An allocator without optimisation serves no program.
            $<$<CONFIG:>:-O2>
            $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes>
            $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
            $<$<BOOL:${HK_WERROR}>:-Werror>
            # A project that holds this one may have chosen other warnings, as errors.
            $<$<NOT:$<BOOL:${is_top_level}>>:-w>
)
add_library(hk_sanitize_flags INTERFACE)
if(HK_SANITIZE)
  # A sanitizer's instrumentation takes long to compile. Without inlining it takes less.
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
  set(sanitize -fsanitize=${HK_SANITIZE})
  if(HK_SANITIZE STREQUAL "address")
    list(APPEND sanitize -fsanitize=undefined)
  endif()
  target_compile_options(hk_sanitize_flags INTERFACE ${sanitize} -fno-sanitize-recover=all)
  target_compile_options(hk_flags INTERFACE -fno-omit-frame-pointer)
  target_link_options(hk_flags INTERFACE ${sanitize})
endif()

add_library(hk_library_flags INTERFACE)
target_link_libraries(hk_library_flags INTERFACE hk_flags hk_sanitize_flags)
target_compile_options(
  hk_library_flags
  INTERFACE # Only marked names are exported. All others are called directly.
            -fvisibility=hidden
            -fno-semantic-interposition
            # Thread-local variables lie at a fixed distance from the thread register. ld.so, which may allocate, is not
            # called.
            -ftls-model=initial-exec
            # The few calls into libc go through the GOT, which is bound at the start (-z now).
            -fno-plt
            # hakmem is malloc: the compiler may not reason from malloc's meaning, nor turn malloc + memset into calloc.
            -fno-builtin-malloc
            -fno-builtin-calloc
            -fno-builtin-realloc
            -fno-builtin-free
            -ffunction-sections
            -fdata-sections
            $<$<NOT:$<BOOL:${HK_SANITIZE}>>:-fomit-frame-pointer>
            $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>
)

add_library(hk_preload_link_flags INTERFACE)
set(wanted_link_flags
    -Wl,--no-undefined
    -Wl,--gc-sections
    -Wl,--as-needed
    -Wl,--exclude-libs,ALL # the compiler's own archives export nothing
    -Wl,--hash-style=gnu
    -Wl,--build-id=sha1
    -Wl,--eh-frame-hdr # musl-gcc does not ask for it; the unwinder reads it
    -Wl,--undefined-version # the version script names glibc's names too, which musl does not have
    -Wl,-z,relro
    -Wl,-z,now
    -Wl,-z,noexecstack
    -Wl,-z,nodelete # dlclose must not unmap the allocator of a running program
)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  # Pages have 4 KiB on x86-64, so segments need no wider distance. Headers, constants and code share one segment: every
  # process has fewer partly filled pages. (arm64 keeps the linker's 64 KiB, because its kernels may have such pages.)
  list(APPEND wanted_link_flags -Wl,-z,max-page-size=4096 -Wl,-z,noseparate-code)
endif()
# The order of code and data. A linker that cannot insert into its own script links without it.
file(STRINGS "${PROJECT_SOURCE_DIR}/src/override/first_functions.txt" first_functions REGEX "^[^#]")
string(REGEX REPLACE "[; ]+" ";" first_functions "${first_functions}")
list(TRANSFORM first_functions REPLACE "^(.+):(.+)$" "    */\\1.c.o(.text.\\2 .text.\\2.*)\n")
list(TRANSFORM first_functions REPLACE "^([^ ]+)$" "    *(.text.\\1 .text.\\1.*)\n")
list(JOIN first_functions "" first_functions)
configure_file("${PROJECT_SOURCE_DIR}/cmake/hakmem-order.ld.in" "${PROJECT_BINARY_DIR}/hakmem-order.ld" @ONLY)
file(MD5 "${PROJECT_BINARY_DIR}/hakmem-order.ld" order_hash)
set(order_script "${PROJECT_BINARY_DIR}/hakmem-order-${order_hash}.ld") # CMake remembers what the linker says of a name
configure_file("${PROJECT_BINARY_DIR}/hakmem-order.ld" "${order_script}" COPYONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/override/first_functions.txt")
list(APPEND wanted_link_flags "SHELL:-T \"${order_script}\"") # -Wl would split a path at its commas
# The check uses the linker of a project that holds this one: add_link_options(-fuse-ld=...) may name another.
get_directory_property(link_options_of_project LINK_OPTIONS)
string(GENEX_STRIP "${link_options_of_project}" link_options_of_project)
foreach(flag IN LISTS wanted_link_flags)
  string(MAKE_C_IDENTIFIER "HK_LINKER_HAS${flag}" has_flag)
  set(tried ${link_options_of_project} "${flag}")
  check_linker_flag(C "${tried}" ${has_flag})
  if(${has_flag})
    target_link_options(hk_preload_link_flags INTERFACE "${flag}")
  endif()
endforeach()
