# syntax=docker/dockerfile:1
ARG RUST=1.95
ARG DEBIAN=bookworm

FROM rust:${RUST}-slim-${DEBIAN} AS build
WORKDIR /build
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --locked --profile dist --bin sluice \
    && install -D target/dist/sluice /out/sluice

FROM debian:${DEBIAN}-slim
COPY --from=build /out/sluice /usr/local/bin/sluice
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["/usr/local/bin/sluice", "health"]
ENTRYPOINT ["/usr/local/bin/sluice"]
CMD ["run", "-c", "/etc/sluice/gateway.yaml"]
