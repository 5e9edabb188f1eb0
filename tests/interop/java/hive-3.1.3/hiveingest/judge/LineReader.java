package hiveingest.judge;

import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;

/** The lines of a stream as bytes, without their newline. */
final class LineReader {
  private final InputStream input;
  private byte[] buffer = new byte[1 << 20];
  private int start;
  private int end;

  LineReader(InputStream input) {
    this.input = input;
  }

  /** The next line, or null after the last. */
  byte[] next() throws IOException {
    int at = start;
    while (true) {
      for (; at < end; at++) {
        if (buffer[at] == '\n') {
          byte[] line = Arrays.copyOfRange(buffer, start, at);
          start = at + 1;
          return line;
        }
      }
      at -= start;
      if (!fill()) return last();
    }
  }

  /** Moves the begun line to the front and reads on behind it. */
  private boolean fill() throws IOException {
    byte[] target = end - start == buffer.length ? new byte[2 * buffer.length] : buffer;
    System.arraycopy(buffer, start, target, 0, end - start);
    end -= start;
    start = 0;
    buffer = target;
    int read = input.read(buffer, end, buffer.length - end);
    end += Math.max(read, 0);
    return read > 0;
  }

  private byte[] last() {
    byte[] line = start == end ? null : Arrays.copyOfRange(buffer, start, end);
    start = end;
    return line;
  }
}
