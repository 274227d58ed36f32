//! What is used of PCRE2, in types that cannot be misused: a compiled pattern, one search in a text, its limits.
//!
//! Called by `regular_expression` alone, which decides about limits and repeats searches. Each thread keeps a stack for
//! compiled machine code and a place for a match, so that a search allocates nothing.
//!
//! `unsafe` because PCRE2 is a library of C: `pcre2` of crates.io has neither match limits nor callouts, so its
//! `pcre2-sys` is called from here.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::{self, NonNull};

use pcre2_sys::*;

/// Bytes that a stack for compiled machine code begins with.
const STACK_BYTES: usize = 32 << 10;

/// Bytes that a thread's own stack may grow to.
const STACK_BYTES_MAX: usize = 256 << 10;

/// Bytes of a stack made for one search that needs more, which remembers many places to go back to.
const LARGE_STACK_BYTES_MAX: usize = 64 << 20;

/// The same for searches without machine code, in KiB.
const HEAP_KIB_MAX: u32 = 128 << 10;

/// Bytes of PCRE2's longest message.
const MESSAGE_BYTES_MAX: usize = 256;

/// Whether machine code is made of a pattern, which takes about as long as searching some KiB of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Translation {
    /// The pattern is for many texts.
    MachineCode,
    /// The pattern is for one text.
    None,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Code {
    pattern: NonNull<pcre2_code_8>,
    capture_count: usize,
}

// SAFETY: PCRE2 changes a compiled pattern only while compiling it, which `Code::compile` has done before anybody else sees it.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

/// Why a pattern cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CompileError {
    /// PCRE2's number.
    pub(super) number: i32,
    /// PCRE2's text.
    pub(super) message: String,
}

/// Why a search came to no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SearchError {
    /// The match limit is reached.
    MatchLimit,
    /// The callout wanted an end.
    Stopped,
    /// Another of PCRE2's errors, by its number.
    Other(i32),
}

/// Where something was found; groups that took no part are `None`.
pub(super) type Spans = Vec<Option<Range<usize>>>;

impl Code {
    /// Compiles a pattern with PCRE2's options; it is taken as UTF-8.
    pub(super) fn compile(pattern: &str, options: u32, translation: Translation) -> Result<Self, CompileError> {
        // `\C` would match single bytes of a character.
        let options = options | PCRE2_UTF | PCRE2_NO_UTF_CHECK | PCRE2_NEVER_BACKSLASH_C;
        let (mut number, mut offset) = (0, 0);
        // SAFETY: the pattern is `len` bytes long, in memory, and valid UTF-8; both results are written to variables that live long enough.
        let compiled = unsafe {
            pcre2_compile_8(address(pattern), pattern.len(), options, &mut number, &mut offset, ptr::null_mut())
        };
        let Some(compiled) = NonNull::new(compiled) else {
            return Err(CompileError { number, message: message(number) });
        };
        let mut code = Self { pattern: compiled, capture_count: 0 };
        let mut count = 0_u32;
        // SAFETY: PCRE2_INFO_CAPTURECOUNT writes one `uint32_t`.
        unsafe {
            pcre2_pattern_info_8(compiled.as_ptr(), PCRE2_INFO_CAPTURECOUNT, (&raw mut count).cast::<c_void>());
        }
        code.capture_count = count as usize;
        if translation == Translation::MachineCode {
            // Where there is no translator for the processor, or for this pattern, PCRE2 goes on without.
            // SAFETY: the pattern was compiled above, and nobody else has it yet.
            unsafe { pcre2_jit_compile_8(compiled.as_ptr(), PCRE2_JIT_COMPLETE) };
        }
        Ok(code)
    }

    /// Where the pattern matches first in `text` from byte `start` on; of the groups only the whole match, number 0.
    pub(super) fn find(
        &self,
        text: &str,
        start: usize,
        search: Search<'_>,
    ) -> Result<Option<Range<usize>>, SearchError> {
        SCRATCH.with_borrow_mut(|scratch| {
            let data = scratch.single_match();
            let found = scratch.search(self, text, start, data, search)?;
            Ok(found.then(|| span(data, 0)).flatten())
        })
    }

    /// The same with all groups; none when nothing matches.
    pub(super) fn captures(&self, text: &str, start: usize, search: Search<'_>) -> Result<Spans, SearchError> {
        let data = MatchData::new(self.capture_count + 1);
        let found = SCRATCH.with_borrow_mut(|scratch| scratch.search(self, text, start, data.0, search))?;
        Ok(if found { (0..=self.capture_count).map(|group| span(data.0, group)).collect() } else { Vec::new() })
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: made by `pcre2_compile_8`, and freed only here.
        unsafe { pcre2_code_free_8(self.pattern.as_ptr()) }
    }
}

/// How far one search may go.
pub(super) struct Search<'s> {
    /// PCRE2's match limit: steps back at one position of the text.
    pub(super) match_limit: u32,
    /// Asked at each callout of the pattern; the search ends when it says so.
    pub(super) stop: Option<&'s mut dyn FnMut() -> bool>,
}

/// A place for a match.
struct MatchData(NonNull<pcre2_match_data_8>);

impl MatchData {
    fn new(groups: usize) -> Self {
        let groups = u32::try_from(groups).unwrap_or(u32::MAX);
        // SAFETY: no more than an allocation.
        let data = unsafe { pcre2_match_data_create_8(groups, ptr::null_mut()) };
        Self(allocated(data))
    }
}

impl Drop for MatchData {
    fn drop(&mut self) {
        // SAFETY: made by `pcre2_match_data_create_8`, and freed only here.
        unsafe { pcre2_match_data_free_8(self.0.as_ptr()) }
    }
}

/// What PCRE2 needs beside a pattern and a text; one a thread.
struct Scratch {
    single: MatchData,
    context: NonNull<pcre2_match_context_8>,
    stack: Stack,
}

/// A stack for compiled machine code.
struct Stack(NonNull<pcre2_jit_stack_8>);

impl Stack {
    fn new(bytes_max: usize) -> Self {
        // SAFETY: no more than an allocation.
        let stack = unsafe { pcre2_jit_stack_create_8(STACK_BYTES, bytes_max, ptr::null_mut()) };
        Self(allocated(stack))
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // SAFETY: made by `pcre2_jit_stack_create_8`, and freed only here.
        unsafe { pcre2_jit_stack_free_8(self.0.as_ptr()) }
    }
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::new());
}

impl Scratch {
    fn new() -> Self {
        // SAFETY: an allocation, and a setting of what was allocated.
        let context = unsafe {
            let context = allocated(pcre2_match_context_create_8(ptr::null_mut()));
            pcre2_set_heap_limit_8(context.as_ptr(), HEAP_KIB_MAX);
            context
        };
        Self { single: MatchData::new(1), context, stack: Stack::new(STACK_BYTES_MAX) }
    }

    fn single_match(&self) -> NonNull<pcre2_match_data_8> {
        self.single.0
    }

    /// Whether the pattern matches; where it does is then in `data`.
    fn search(
        &mut self,
        code: &Code,
        text: &str,
        start: usize,
        data: NonNull<pcre2_match_data_8>,
        search: Search<'_>,
    ) -> Result<bool, SearchError> {
        if !text.is_char_boundary(start) {
            return Ok(false);
        }
        let mut stop = search.stop;
        let (callout, callout_data): (Option<Callout>, *mut c_void) = match &mut stop {
            Some(stop) => (Some(ask), (&raw mut *stop).cast()),
            None => (None, ptr::null_mut()),
        };
        let matching = |stack: &Stack| {
            // SAFETY: the text is `len` bytes long, in memory, and valid UTF-8, `start` is in it and at a character's beginning; pattern, match data,
            // context and stack are alive, and all but the pattern are this thread's. The callout's data outlives the call.
            unsafe {
                pcre2_jit_stack_assign_8(self.context.as_ptr(), None, stack.0.as_ptr().cast());
                pcre2_set_match_limit_8(self.context.as_ptr(), search.match_limit);
                pcre2_set_callout_8(self.context.as_ptr(), callout, callout_data);
                let (subject, pattern) = (address(text), code.pattern.as_ptr());
                let options = PCRE2_NO_UTF_CHECK;
                pcre2_match_8(pattern, subject, text.len(), start, options, data.as_ptr(), self.context.as_ptr())
            }
        };
        let mut outcome = matching(&self.stack);
        if outcome == PCRE2_ERROR_JIT_STACKLIMIT {
            outcome = matching(&Stack::new(LARGE_STACK_BYTES_MAX));
        }
        match outcome {
            0.. => Ok(true),
            PCRE2_ERROR_NOMATCH => Ok(false),
            PCRE2_ERROR_MATCHLIMIT => Err(SearchError::MatchLimit),
            PCRE2_ERROR_CALLOUT => Err(SearchError::Stopped),
            other => Err(SearchError::Other(other)),
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: made in `new`, and freed only here.
        unsafe { pcre2_match_context_free_8(self.context.as_ptr()) }
    }
}

/// Gets the description of the callout, which nobody here reads, and the data of `pcre2_set_callout_8`.
type Callout = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;

unsafe extern "C" {
    /// Of PCRE2's interface, and left out by `pcre2-sys`.
    fn pcre2_set_callout_8(context: *mut pcre2_match_context_8, callout: Option<Callout>, data: *mut c_void) -> c_int;
}

/// What PCRE2 calls at each callout.
unsafe extern "C" fn ask(_: *mut c_void, data: *mut c_void) -> c_int {
    // SAFETY: `search` gives the address of this, and it lives until `pcre2_match_8` returns.
    let stop = unsafe { &mut *data.cast::<&mut dyn FnMut() -> bool>() };
    if stop() { PCRE2_ERROR_CALLOUT } else { 0 }
}

/// Where a text begins. Machine code reads memory in pieces that are aligned, and of an empty text, too, which in Rust may be nowhere.
fn address(text: &str) -> *const u8 {
    if text.is_empty() { c"".as_ptr().cast() } else { text.as_ptr() }
}

/// Where a group is in the text.
fn span(data: NonNull<pcre2_match_data_8>, group: usize) -> Option<Range<usize>> {
    // SAFETY: PCRE2 has written as many pairs of offsets as it counts.
    let (start, end) = unsafe {
        if group >= pcre2_get_ovector_count_8(data.as_ptr()) as usize {
            return None;
        }
        let offsets = pcre2_get_ovector_pointer_8(data.as_ptr());
        (*offsets.add(2 * group), *offsets.add(2 * group + 1))
    };
    (start != PCRE2_UNSET).then_some(start..end)
}

/// PCRE2's text for one of its numbers.
pub(super) fn message(number: i32) -> String {
    let mut buffer = [0_u8; MESSAGE_BYTES_MAX];
    // SAFETY: it writes at most as many bytes as it is told.
    let length = unsafe { pcre2_get_error_message_8(number, buffer.as_mut_ptr(), buffer.len()) };
    let length = usize::try_from(length).unwrap_or(0);
    String::from_utf8_lossy(buffer.get(..length).unwrap_or_default()).into_owned()
}

/// An address from an allocation. Without memory we end as Rust's own allocations do.
fn allocated<T>(address: *mut T) -> NonNull<T> {
    NonNull::new(address).unwrap_or_else(|| std::alloc::handle_alloc_error(std::alloc::Layout::new::<[usize; 16]>()))
}
